// The state machine of the TypeScript SDK's own local server: a request a line, and its reply.
//
// A line is {"now": ..., "request": ...}, with the time in unix milliseconds. The time of cron expressions is that of TZ.

import { createInterface } from "node:readline";
import { Server } from "../../../examples/typescript_worker/node_modules/@resonatehq/sdk/dist/src/network/local.js";

const server = new Server();
for await (const line of createInterface({ input: process.stdin })) {
  const { now, request } = JSON.parse(line);
  console.log(JSON.stringify(server.apply(now, request).response));
}
