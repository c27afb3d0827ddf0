/** Where one can go, and which roles may: the server's table of rights, as far as a page needs it. */

import type { Me } from "./me";

const READERS = ["viewer", "operator", "admin"];
const WORKERS = ["operator", "admin"];

function has(me: Me, roles: string[]): boolean {
  return !me.isKnown || roles.some((role) => me.roles.includes(role));
}

/** Whether somebody sees more than what they are asked. */
export function seesAll(me: Me): boolean {
  return has(me, READERS);
}

/** Whether somebody looks after runs, groups and schedules. */
export function looksAfter(me: Me): boolean {
  return has(me, WORKERS);
}

interface Place {
  to: string;
  name: string;
  isFor: (me: Me) => boolean;
}

export const PLACES = [
  { to: "/inbox", name: "Inbox", isFor: () => true },
  { to: "/runs", name: "Runs", isFor: seesAll },
  { to: "/sessions", name: "Sessions", isFor: seesAll },
  { to: "/schedules", name: "Schedules", isFor: seesAll },
  { to: "/workers", name: "Workers", isFor: seesAll },
  { to: "/rules", name: "Rules", isFor: () => true },
  { to: "/audit", name: "Audit", isFor: seesAll },
  { to: "/deliveries", name: "Deliveries", isFor: seesAll },
  { to: "/keys", name: "Keys", isFor: (me) => me.isKnown && me.roles.includes("admin") },
] as const satisfies readonly Place[];

/** How many of them have room on a phone; the others are in a menu there. */
export const FIRST_PLACES = 2;
