/** Who looks at the page: whoever the server says, or on a laptop the name that they gave. */

import { useSuspenseQuery } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { api, given } from "../api/client";
import { keep, subscribe } from "./kept";

export interface Me {
  /** Under which name they answer. */
  user_id: string;
  groups: string[];
  roles: string[];
  /** Whether the server knows who they are; else they may say who. */
  isKnown: boolean;
  /** All names by which they may be asked. */
  names: ReadonlySet<string>;
}

const KEY = "signoff.name";

function spokenName(): string {
  return localStorage.getItem(KEY) ?? "me";
}

export function sayName(name: string): void {
  keep(KEY, name);
}

export function useMe(): Me {
  const { data } = useSuspenseQuery({
    queryKey: ["me"],
    queryFn: () => given(api.GET("/v1/me")),
    staleTime: 60_000,
  });
  const spoken = useSyncExternalStore(subscribe, spokenName);
  const user_id = data.user_id ?? spoken;
  const names = new Set([
    `user:${user_id}`,
    ...data.groups.map((group) => `group:${group}`),
    ...data.roles.map((role) => `role:${role}`),
  ]);
  return { user_id, groups: data.groups, roles: data.roles, isKnown: data.user_id !== null, names };
}
