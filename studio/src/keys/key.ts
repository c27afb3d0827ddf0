/** Keys as the API shows them. */

import type { components } from "../api/schema";

export type Key = components["schemas"]["Key"];
export type NewKey = components["schemas"]["NewKey"];
export type Role = components["schemas"]["Role"];
export type Kind = Key["kind"];

export const ROLES: [Role, string][] = [
  ["viewer", "sees everything, changes nothing"],
  ["responder", "answers questions assigned to it"],
  ["operator", "starts and manages runs"],
  ["admin", "all of that, and manages keys"],
];

export function stateOf(key: Key): "open" | "revoked" | "expired" {
  if (key.revoked_at != null) return "revoked";
  return key.expires_at != null && key.expires_at * 1000 <= Date.now() ? "expired" : "open";
}
