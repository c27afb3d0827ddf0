/** What the server lets somebody do, by their roles. It decides; this only leaves out what it would refuse. */

import type { Me } from "./me";

function hasRole(me: Me, ...roles: string[]): boolean {
  return !me.isKnown || roles.some((role) => me.roles.includes(role));
}

/** Answer, comment on, claim and delegate what they are asked. */
export function mayRespond(me: Me): boolean {
  return hasRole(me, "responder", "operator", "admin");
}

/** Look after what others are asked. */
export function mayOperate(me: Me): boolean {
  return hasRole(me, "operator", "admin");
}

export function seesRuns(me: Me): boolean {
  return hasRole(me, "viewer", "operator", "admin");
}
