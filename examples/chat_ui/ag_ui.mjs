// A chat in the terminal, with the client of AG-UI.

import { createInterface } from "node:readline/promises";
import { stdin, stdout } from "node:process";
import { HttpAgent } from "@ag-ui/client";

const [url = "http://127.0.0.1:8000", threadId = "t-1", user = "ana"] = process.argv.slice(2);

class Chat extends HttpAgent {
  connect(input) {
    return this.run(input);
  }
}

const chat = new Chat({ url: `${url}/agent`, threadId, headers: { "x-forwarded-user": user } });
const shown = {
  onTextMessageContentEvent: ({ event }) => void stdout.write(event.delta),
  onTextMessageEndEvent: () => void stdout.write("\n"),
  onToolCallResultEvent: ({ event }) => console.log(`  [${event.content}]`),
  onCustomEvent: ({ event }) => console.log(`  [${event.name}: ${event.value.reason}]`),
  onRunErrorEvent: ({ event }) => console.log(`  [${event.code}: ${event.message}]`),
};

const lines = createInterface({ input: stdin })[Symbol.asyncIterator]();
async function ask(prompt) {
  stdout.write(prompt);
  const { value, done } = await lines.next();
  if (done) process.exit(0);
  return value.trim();
}

async function decide() {
  while (chat.pendingInterrupts.length > 0) {
    const resume = [];
    for (const { id, message, metadata } of chat.pendingInterrupts) {
      const answer = await ask(`${message} ${JSON.stringify(metadata.arguments)} (yes, or the reason why not) `);
      const payload = answer === "yes" ? { approved: true } : { approved: false, reason: answer };
      resume.push({ interruptId: id, status: "resolved", payload });
    }
    await chat.runAgent({ resume }, shown);
  }
}

await chat.connectAgent({}, shown); // after a restart: the history, and what waits
for (const { role, content } of chat.messages) if (content) console.log(`${role}: ${content}`);
await decide();
for (;;) {
  const content = await ask("> ");
  chat.addMessage({ id: crypto.randomUUID(), role: "user", content });
  await chat.runAgent({}, shown);
  await decide();
}
