// A chat in the terminal, with the Vercel AI SDK. In a browser, useChat takes the place of Chat and State.

import { createInterface } from "node:readline/promises";
import { stdin, stdout } from "node:process";
import { AbstractChat, DefaultChatTransport, isToolUIPart } from "ai";

const [url = "http://127.0.0.1:8000", id = "t-1", user = "ana"] = process.argv.slice(2);
const headers = { "x-forwarded-user": user };

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => void (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {}

const chat = new Chat({
  id,
  state: new State(),
  transport: new DefaultChatTransport({ api: `${url}/chat`, headers }),
  onData: ({ type, data }) => console.log(`  [${type}: ${data.reason}]`),
  onError: ({ message }) => console.log(`  [${message}]`),
});

const lines = createInterface({ input: stdin })[Symbol.asyncIterator]();
async function ask(prompt) {
  stdout.write(prompt);
  const { value, done } = await lines.next();
  if (done) process.exit(0);
  return value.trim();
}

const open = () => (chat.messages.at(-1)?.parts ?? []).filter((part) => part.state === "approval-requested");

function show(messages) {
  for (const { role, parts } of messages) {
    for (const part of parts) {
      if (part.type === "text") console.log(`${role}: ${part.text}`);
      else if (isToolUIPart(part)) console.log(`  [${part.type} ${part.state} ${part.output ?? ""}]`);
    }
  }
}

async function decide() {
  while (open().length > 0) {
    for (const { type, input, approval } of open()) {
      const answer = await ask(`${type} ${JSON.stringify(input)} (yes, or the reason why not) `);
      const decision = answer === "yes" ? { approved: true } : { approved: false, reason: answer };
      await chat.addToolApprovalResponse({ id: approval.id, ...decision });
    }
    await chat.sendMessage(); // with useChat: sendAutomaticallyWhen
    show(chat.messages.slice(-1));
  }
}

chat.messages = await (await fetch(`${url}/chat/${encodeURIComponent(id)}`, { headers })).json();
await chat.resumeStream(); // after a restart: the turn that runs or waits
show(chat.messages);
await decide();
for (;;) {
  const text = await ask("> ");
  await chat.sendMessage({ text });
  show(chat.messages.slice(-1));
  await decide();
}
