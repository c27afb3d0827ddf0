/** An agent's output and actions in a run, read from the steps of its requests and tool calls. */

import type { Voice } from "./live";
import type { Item } from "./timeline";

export type Line =
  | { kind: "text"; seq: number; who: string; text: string }
  | { kind: "thinking"; seq: number; who: string; text: string }
  | { kind: "call"; seq: number; who: string; tool: string; args: unknown }
  | { kind: "result"; seq: number; who: string; value: unknown; outcome: string }
  | { kind: "question"; seq: number; item: Item }
  | { kind: "live"; n: number; who: string; text: string; thinking: string };

interface ModelPart {
  part_kind?: string;
  content?: unknown;
  tool_name?: string;
  args?: unknown;
}

const REQUEST = /^(.+):model(_stream)?$/;

/**
 * Return the lines of a run's agents in order, then their live output; empty for a run
 * without agents.
 */
export function talkOf(items: readonly Item[], voices: readonly Voice[]): Line[] {
  const agents = new Set(items.map(agentOf).filter((agent) => agent !== undefined));
  const lines = agents.size === 0 ? [] : items.flatMap((item) => linesOf(item, agents));
  return [...lines, ...voices.flatMap(spokenBy)];
}

function spokenBy({ n, name, said: { text = "", thinking = "" } }: Voice): Line[] {
  const who = REQUEST.exec(name)?.[1];
  return who === undefined ? [] : [{ kind: "live", n, who, text, thinking }];
}

function agentOf({ kind, name, value }: Item): string | undefined {
  const isResponse = kind === "step" && Array.isArray((value as { parts?: unknown } | null)?.parts);
  return isResponse ? REQUEST.exec(name)?.[1] : undefined;
}

function linesOf(item: Item, agents: ReadonlySet<string>): Line[] {
  const who = agentOf(item);
  if (who !== undefined)
    return (item.value as { parts: ModelPart[] }).parts.flatMap((part) => linesIn(part, item.seq, who));
  if (item.kind === "question") return [{ kind: "question", seq: item.seq, item }];
  const [agent] = [...agents].filter((each) => item.name.startsWith(`${each}.`)).sort(byLength);
  if (agent === undefined || item.kind !== "step" || item.state === "open") return [];
  const tool = item.name.slice(agent.length + 1);
  return tool.includes(":") ? [] : [resultOf(item, tool)];
}

/** With agents called `a` and `a.b`, a step of `a.b` belongs to the latter. */
function byLength(first: string, other: string): number {
  return other.length - first.length;
}

function linesIn({ part_kind, content, tool_name = "", args }: ModelPart, seq: number, who: string): Line[] {
  if (part_kind === "text" && typeof content === "string") return [{ kind: "text", seq, who, text: content }];
  if (part_kind === "thinking" && typeof content === "string" && content !== "") {
    return [{ kind: "thinking", seq, who, text: content }];
  }
  return part_kind === "tool-call" ? [{ kind: "call", seq, who, tool: tool_name, args: read(args) }] : [];
}

/** Arguments are an object, or its JSON. */
function read(args: unknown): unknown {
  if (typeof args !== "string") return args ?? {};
  try {
    return JSON.parse(args === "" ? "{}" : args);
  } catch {
    return args;
  }
}

function resultOf(item: Item, who: string): Line {
  const { kind, result, message, reason } = (item.value ?? {}) as Record<string, unknown>;
  if (item.error !== undefined)
    return { kind: "result", seq: item.seq, who, value: undefined, outcome: "failed" };
  if (kind === "signoff_paused") {
    return {
      kind: "result",
      seq: item.seq,
      who,
      value: undefined,
      outcome: `waits: ${String(reason).replaceAll("_", " ")}`,
    };
  }
  if (kind === "model_retry" || kind === "tool_failed") {
    return {
      kind: "result",
      seq: item.seq,
      who,
      value: message,
      outcome: kind === "model_retry" ? "asked to retry" : "failed",
    };
  }
  return { kind: "result", seq: item.seq, who, value: result, outcome: "returned" };
}
