/** The audit events of a question. */

import { useQuery } from "@tanstack/react-query";
import { api, given } from "../api/client";
import type { components } from "../api/schema";

export type Event = components["schemas"]["AuditEvent"];

const PAGE = 1000;
/** The polling interval for questions outside of the list, which no stream reports. */
export const REFETCH_MILLISECONDS = 30_000;

export function useHistory(id: string) {
  return useQuery({
    queryKey: ["history", id],
    queryFn: () => allOf(id),
    refetchInterval: REFETCH_MILLISECONDS,
  });
}

async function allOf(question_id: string): Promise<Event[]> {
  const events: Event[] = [];
  let after: string | null = null;
  do {
    const query = { limit: PAGE, ...(after !== null && { after }) };
    const page: { items: Event[]; next: string | null } = await given(
      api.GET("/v1/questions/{question_id}/history", { params: { path: { question_id }, query } }),
    );
    events.push(...page.items);
    after = page.next;
  } while (after !== null);
  return events;
}
