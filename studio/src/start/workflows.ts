/** Workflows as workers have announced them. */

import { queryOptions } from "@tanstack/react-query";
import { api, given } from "../api/client";
import type { components } from "../api/schema";

export type Workflow = components["schemas"]["WorkflowInfo"];

const MOST = 1000; // versions and groups of one workflow, and pages of all

async function listed(name?: string): Promise<Workflow[]> {
  const found: Workflow[] = [];
  let after: string | null | undefined;
  do {
    const query = { limit: MOST, ...(name !== undefined && { name }), ...(after && { after }) };
    const page = await given(api.GET("/v1/workflows", { params: { query } }));
    found.push(...page.items);
    after = page.next;
  } while (after);
  return found;
}

export const allWorkflows = queryOptions({ queryKey: ["workflows"], queryFn: () => listed() });

export const versionsOf = (name: string) =>
  queryOptions({ queryKey: ["workflows", name], queryFn: () => listed(name), refetchOnWindowFocus: false });

/** For each workflow of each group, the version of new runs, as far as workers have announced it. */
export function current(workflows: readonly Workflow[]): Workflow[] {
  const chosen = new Map<string, Workflow>();
  for (const each of workflows) {
    const key = JSON.stringify([each.name, each.group]);
    const other = chosen.get(key);
    if (other === undefined || rank(each) > rank(other)) chosen.set(key, each);
  }
  return [...chosen.values()];
}

/** Current ones come before old ones, then the last announced first. */
function rank({ is_current, seen_at = 0 }: Workflow): number {
  return is_current ? seen_at : -1 / (1 + seen_at);
}
