/** Events of the audit trail: those of a question or a run, or backwards from the end of the chain. */

import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { type List, useList } from "../lists/useList";

export type AuditEvent = components["schemas"]["AuditEvent"];

export interface Which {
  question?: string | undefined;
  run?: string | undefined;
  kind?: string | undefined;
}

export const KINDS: readonly string[] = [
  ...["asked", "resolved", "rejected", "cancelled", "timed_out", "viewed", "commented", "voted", "refused"],
  ...["claimed", "released", "delegated", "reassigned", "deadline_moved", "reminded", "escalated"],
  ...["defaulted", "rule_made", "rule_used", "rule_revoked", "linked", "unlinked", "saved", "loaded"],
  ...["suspended", "resumed", "retried", "terminated"],
];

const AT_ONCE = 200;

export function useTrail({ question, run, kind }: Which): List<AuditEvent> {
  const isOfOne = question !== undefined || run !== undefined;
  const list = useList<AuditEvent, string | number>(["audit", { question, run }], (after) =>
    isOfOne ? ofOne(question, run, after as string | undefined) : newest(after as number | undefined),
  );
  return kind === undefined ? list : { ...list, items: list.items.filter((each) => each.kind === kind) };
}

function ofOne(question: string | undefined, run: string | undefined, after: string | undefined) {
  const query = {
    limit: AT_ONCE,
    ...(question && { question_id: question }),
    ...(run && { run_id: run }),
    ...(after && { after }),
  };
  return given(api.GET("/v1/audit", { params: { query } }));
}

/** The sealed events up to a place of the chain, or to its end, newest first. */
async function newest(upTo: number | undefined): Promise<{ items: AuditEvent[]; next: number | null }> {
  const last = upTo ?? (await chain(-1, 1)).end;
  const after = Math.max(-1, last - AT_ONCE);
  const { items } = await chain(after, Math.max(1, last - after));
  return {
    items: items.flatMap(({ event }) => (event === null ? [] : [event])).reverse(),
    next: after === -1 ? null : after,
  };
}

function chain(after: number, limit: number) {
  return given(api.GET("/v1/audit/chain", { params: { query: { after, limit } } }));
}
