// Functions on the TypeScript SDK of Resonate: node sdk_program.ts URL FOLDER GROUP LEASE_SECONDS. They are those of sdk_program.py,
// whose docstring describes orders, outcomes and effects.

import { appendFileSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { type Context, type Info, Resonate } from "../../../examples/typescript_worker/node_modules/@resonatehq/sdk/dist/src/async/index.js";
import { Constant } from "../../../examples/typescript_worker/node_modules/@resonatehq/sdk/dist/src/index.js";

const [url, folder, group, leaseSeconds] = process.argv.slice(2);

function effect(info: Info, name: string): void {
  appendFileSync(`${folder}/effects`, `${name} ${info.id}\n`);
}

async function step(info: Info, name: string, seconds = 0): Promise<string> {
  effect(info, name);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  return name;
}

async function calls(ctx: Context, name: string): Promise<string[]> {
  const done: string[] = [];
  for (let n = 0; n < 3; n++) done.push(await ctx.run(step, `${name}-local-${n}`));
  for (let n = 0; n < 3; n++) done.push(await ctx.rpc(step, `${name}-remote-${n}`, own(ctx)));
  const beside = [0, 1, 2].map((n) => ctx.rpc(step, `${name}-beside-${n}`, own(ctx)));
  for (const each of beside) done.push(await each);
  return done;
}

async function chain(ctx: Context, name: string, length: number, seconds: number): Promise<number> {
  for (let n = 0; n < length; n++) {
    if (n % 3 === 0) await ctx.run(step, `${name}-${n}`, seconds);
    else if (n % 3 === 1) await ctx.rpc(step, `${name}-${n}`, seconds, own(ctx));
    else await ctx.rpc(link, `${name}-${n}`, seconds, own(ctx));
  }
  return length;
}

async function link(ctx: Context, name: string, seconds: number): Promise<void> {
  await ctx.run(step, `${name}-local`, seconds);
  await ctx.rpc(step, `${name}-remote`, seconds, own(ctx));
}

async function ping(ctx: Context, name: string, groups: string[]): Promise<string[]> {
  const [first, ...others] = groups;
  await ctx.run(step, `${name}-${groups.length}`);
  if (others.length === 0) return [first];
  const rest = await ctx.rpc<string[]>("ping", name, others, ctx.options({ target: others[0] }));
  return [first, ...rest];
}

async function sleeps(ctx: Context, name: string): Promise<string> {
  await ctx.run(step, `${name}-before`);
  await ctx.sleep(300);
  return await ctx.run(step, `${name}-after`);
}

async function detaches(ctx: Context, name: string): Promise<string> {
  await ctx.detached(step, `${name}-detached`, own(ctx));
  return name;
}

async function retries(ctx: Context, name: string): Promise<string> {
  const retryPolicy = new Constant({ delay: 1, maxRetries: 5 });
  return await ctx.rpc(flaky, name, ctx.options({ target: group, retryPolicy }));
}

async function flaky(info: Info, name: string): Promise<string> {
  effect(info, name);
  if (readFileSync(`${folder}/effects`, "utf8").split(`${name} `).length < 4) throw new Error("not yet");
  return name;
}

async function fails(ctx: Context): Promise<string> {
  try {
    return await ctx.rpc(broken, own(ctx));
  } catch (error) {
    return `caught: ${(error as Error).message}`;
  }
}

async function broken(_: Info): Promise<string> {
  throw new Error("broken");
}

async function releases(ctx: Context, name: string): Promise<string> {
  effect(ctx, name);
  ctx.panic(readFileSync(`${folder}/effects`, "utf8").split(`${name} `).length < 3);
  return name;
}

async function asks(ctx: Context): Promise<unknown> {
  const answer_schema = { type: "object", properties: { cents: { type: "integer" } }, required: ["cents"] };
  return await ctx.rpc("signoff:question", { text: "Pay?", input_type: "form", answer_schema }, own(ctx));
}

async function calls_signoff(ctx: Context, number: number): Promise<unknown> {
  return await ctx.rpc("double", number, ctx.options({ target: "signoff-workers" }));
}

async function waits(ctx: Context, name: string, seconds: number): Promise<unknown> {
  await ctx.run(step, `${name}-before`);
  let value: unknown = "none";
  try {
    value = await ctx.promise({ timeout: seconds * 1000 });
  } catch {
    // it is cancelled, or has timed out
  }
  await ctx.run(step, `${name}-after`);
  return value;
}

function own(ctx: Context) {
  return ctx.options({ target: group });
}

async function perform(kind: string, id: string, ...rest: any[]): Promise<unknown> {
  const options = resonate.options({ target: group });
  switch (kind) {
    case "run":
      return await (await resonate.run(id, rest[0], ...rest.slice(1), options)).result();
    case "rpc":
      return await (await resonate.rpc(id, rest[0], ...rest.slice(1), options)).result();
    case "send":
      return await (await resonate.rpc(id, rest[1], ...rest.slice(2), resonate.options({ target: rest[0] }))).result();
    case "schedule":
      await resonate.schedule(id, rest[0], rest[1], ...rest.slice(2), options);
      return null;
    case "cancel":
      await resonate.promises.cancel(id);
      return null;
    case "unschedule":
      await resonate.schedules.delete(id);
      return null;
  }
}

async function answer(kind: string, id: string, ...rest: any[]): Promise<void> {
  let outcome: unknown[];
  try {
    outcome = [id, "value", (await perform(kind, id, ...rest)) ?? null];
  } catch (error) {
    outcome = [id, "error", (error as Error).message];
  }
  console.log(JSON.stringify(outcome));
}

const resonate = new Resonate({ url, group, ttl: 1000 * Number(leaseSeconds), timeout: 10_000 });
const functions = [step, calls, chain, link, ping, sleeps, detaches, retries, flaky, releases, fails, broken, asks];
for (const each of [...functions, calls_signoff, waits]) resonate.register(each.name, each);

const orders: Promise<void>[] = [];
for await (const line of createInterface({ input: process.stdin })) {
  const [kind, id, ...rest] = JSON.parse(line);
  orders.push(answer(kind, id, ...rest));
}
await Promise.all(orders);
await resonate.stop();
process.exit(0);
