/** Groups as the API shows them. */

import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { useList } from "../lists/useList";

export type Group = components["schemas"]["Group"];

const MOST_COUNTED = 10_000;

export function counted(runs: number): string {
  return runs >= MOST_COUNTED ? `${MOST_COUNTED.toLocaleString("en")}+` : `${runs}`;
}

export function useGroups() {
  return useList<Group>(["groups"], () => given(api.GET("/v1/groups")));
}
