// A worker in TypeScript, on the SDK of Resonate as it is. A refund waits for an approval in Signoff's inbox, is paid
// here, and gets its receipt from a workflow in Python.
//
//   RESONATE_URL=http://localhost:8001 node worker.ts            serves refunds until it is stopped
//   RESONATE_URL=http://localhost:8001 node worker.ts refund-7   starts one as well, and prints its result

import { appendFileSync } from "node:fs";
import { type Context, type Info, Resonate } from "@resonatehq/sdk/async";

const WEEK = 7 * 24 * 3600 * 1000; // milliseconds

async function pay(info: Info, customer: string, cents: number): Promise<string> {
  const ledger = process.env.LEDGER;
  if (ledger) appendFileSync(ledger, `${info.id} ${customer} ${cents}\n`);
  return `payment of ${info.id}`;
}

async function refund(ctx: Context, customer: string, cents: number): Promise<string> {
  const question = {
    text: `Refund ${customer} ${(cents / 100).toFixed(2)} euros?`,
    assignees: ["group:finance"],
    metadata: { customer, cents },
  };
  const answer = await ctx.promise<{ approved: boolean }>({
    timeout: WEEK,
    tags: { "signoff:question": JSON.stringify(question) },
  });
  if (!answer.approved) return "declined";
  const payment = await ctx.run(pay, customer, cents);
  return await ctx.rpc<string>("write_receipt", customer, cents, payment, ctx.options({ target: "python" }));
}

const resonate = new Resonate({ url: process.env.RESONATE_URL ?? "http://localhost:8001", group: "typescript" });
resonate.register("refund", refund);

const id = process.argv[2];
if (id) {
  const handle = await resonate.run(id, refund, "Ann", 7000);
  console.log(await handle.result());
  await resonate.stop();
} else {
  console.log("serving refunds");
}
