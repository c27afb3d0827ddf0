/** The user: as the server knows them, or on a laptop the name and the groups that they entered. */

import { useSuspenseQuery } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { api, given } from "../api/client";
import { keep, subscribe } from "./kept";

export interface Me {
  /** The name that they answer under. */
  user_id: string;
  groups: string[];
  roles: string[];
  /** Whether the server knows them; otherwise they may enter a name. */
  isKnown: boolean;
  /** All assignee names that include them. */
  names: ReadonlySet<string>;
}

const KEY = "signoff.name";

function spokenName(): string {
  return localStorage.getItem(KEY) ?? "me";
}

export function sayName(name: string): void {
  keep(KEY, name);
}

const GROUPS_KEY = "signoff.groups";

function spokenGroups(): string {
  return localStorage.getItem(GROUPS_KEY) ?? "";
}

/** Set the user's groups, as typed: `finance, ops`. */
export function sayGroups(groups: string): void {
  keep(GROUPS_KEY, groups);
}

export function useSpokenGroups(): string {
  return useSyncExternalStore(subscribe, spokenGroups);
}

function groupsIn(typed: string): string[] {
  const words = typed.split(/[\s,]+/).map((word) => word.replace(/^group:/, ""));
  return [...new Set(words.filter((word) => word !== ""))];
}

export function useMe(): Me {
  const { data } = useSuspenseQuery({
    queryKey: ["me"],
    queryFn: () => given(api.GET("/v1/me")),
    staleTime: 60_000,
  });
  const spoken = useSyncExternalStore(subscribe, spokenName);
  const typed = useSpokenGroups();
  const isKnown = data.user_id !== null;
  const user_id = data.user_id ?? spoken;
  const groups = isKnown ? data.groups : groupsIn(typed);
  const names = new Set([
    `user:${user_id}`,
    ...groups.map((group) => `group:${group}`),
    ...data.roles.map((role) => `role:${role}`),
  ]);
  return { user_id, groups, roles: data.roles, isKnown, names };
}
