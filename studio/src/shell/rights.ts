/** The user's rights, by their roles. The server decides; this only hides actions that it would refuse. */

import type { Me } from "./me";

function hasRole(me: Me, ...roles: string[]): boolean {
  return !me.isKnown || roles.some((role) => me.roles.includes(role));
}

/** Answer, comment on, claim and delegate assigned questions. */
export function mayRespond(me: Me): boolean {
  return hasRole(me, "responder", "operator", "admin");
}

/** Manage other people's questions. */
export function mayOperate(me: Me): boolean {
  return hasRole(me, "operator", "admin");
}

export function seesRuns(me: Me): boolean {
  return hasRole(me, "viewer", "operator", "admin");
}
