// The npm clients of AG-UI and of the Vercel AI SDK, driven by a test: a command a line, and its reply with the same id.

import { createInterface } from "node:readline";
import { HttpAgent } from "../../../examples/chat_ui/node_modules/@ag-ui/client/dist/index.mjs";
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses as isComplete,
} from "../../../examples/chat_ui/node_modules/ai/dist/index.js";

console.error = console.warn = () => {};
process.on("unhandledRejection", () => {}); // of runs that a test has lost on purpose
const clients = {};

class Agent extends HttpAgent {
  connect(input) {
    return this.run(input);
  }
}

class AgUi {
  constructor({ url, thread, user }) {
    const headers = user ? { "x-user": user } : {};
    this.agent = new Agent({ url, threadId: thread, headers });
  }

  async run(how, options) {
    const events = [];
    let failed = null;
    const subscriber = {
      onEvent: ({ event }) => void events.push(event),
      onRunFailed: ({ error }) => void (failed = String(error)),
    };
    try {
      await this.agent[how](options, subscriber);
    } catch (error) {
      failed ??= String(error);
    }
    return { events, failed, ...this.state() };
  }

  state() {
    return { messages: this.agent.messages, pending: this.agent.pendingInterrupts };
  }

  say({ id, text, content }) {
    this.agent.addMessage({ id, role: "user", content: content ?? text });
    return this.run("runAgent", {});
  }

  again({ runId }) {
    return this.run("runAgent", { runId });
  }

  connect({ props }) {
    return this.run("connectAgent", { forwardedProps: props });
  }

  answer({ entries, props }) {
    const resume = entries.map((each) => ({ status: "resolved", ...each }));
    return this.run("runAgent", { resume, forwardedProps: props });
  }

  forget() {
    this.agent.pendingInterrupts = [];
    return {};
  }

  drop() {
    this.agent.abortRun();
    return {};
  }
}

class State {
  status = "ready";
  error = undefined;

  constructor(messages) {
    this.messages = messages;
  }

  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => void (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor({ messages, ...init }) {
    super({ ...init, state: new State(messages) });
  }
}

class Vercel {
  constructor({ url, thread, user, automatic }) {
    this.url = `${url}/${encodeURIComponent(thread)}`;
    this.automatic = automatic;
    this.headers = user ? { "x-user": user } : {};
    this.data = [];
    this.requests = 0;
    this.chat = new Chat({
      id: thread,
      messages: [],
      transport: new DefaultChatTransport({
        api: url,
        headers: this.headers,
        fetch: (...request) => {
          this.requests += 1;
          return fetch(...request);
        },
      }),
      sendAutomaticallyWhen: automatic ? isComplete : undefined,
      onData: (part) => void this.data.push(part),
    });
  }

  async state() {
    const data = this.data.splice(0);
    const { messages, status, error } = this.chat;
    return { messages, status, failed: error ? String(error) : null, data, requests: this.requests };
  }

  async say({ id, text }) {
    await this.chat.sendMessage({ id, role: "user", parts: [{ type: "text", text }] });
    return this.state();
  }

  async load() {
    const response = await fetch(this.url, { headers: this.headers });
    this.chat.messages = await response.json();
    return this.state();
  }

  async resume() {
    await this.chat.resumeStream();
    return this.state();
  }

  async answer({ decisions }) {
    const before = this.requests;
    for (const decision of decisions) await this.chat.addToolApprovalResponse(decision);
    if (this.automatic) {
      while (this.requests === before) await new Promise((resolve) => setTimeout(resolve, 10));
      await new Promise((resolve) => setTimeout(resolve, 100)); // in which it might send more
      while (!["ready", "error"].includes(this.chat.status)) await new Promise((resolve) => setTimeout(resolve, 10));
    } else await this.chat.sendMessage();
    return this.state();
  }

  async reply({ answers }) {
    await this.chat.sendMessage(undefined, { body: { answers } });
    return this.state();
  }
}

const kinds = { "ag-ui": AgUi, vercel: Vercel };

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { call, client, does, ...options } = JSON.parse(line);
  let reply;
  try {
    if (does === "open") reply = void (clients[client] = new kinds[options.kind](options));
    else reply = await clients[client][does](options);
  } catch (error) {
    reply = { failed: String(error) };
  }
  console.log(JSON.stringify({ call, reply: reply ?? {} }));
});
