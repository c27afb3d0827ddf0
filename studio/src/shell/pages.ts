/** The pages of Studio. */

import type { Me } from "./me";
import { mayOperate, seesRuns } from "./rights";

interface Page {
  to: string;
  name: string;
  isFor: (me: Me) => boolean;
}

export const PAGES = [
  { to: "/inbox", name: "Inbox", isFor: () => true },
  { to: "/runs", name: "Runs", isFor: seesRuns },
  { to: "/start", name: "Start a run", isFor: mayOperate },
  { to: "/promises", name: "Promises", isFor: seesRuns },
  { to: "/sessions", name: "Sessions", isFor: seesRuns },
  { to: "/schedules", name: "Schedules", isFor: seesRuns },
  { to: "/workers", name: "Workers", isFor: seesRuns },
  { to: "/rules", name: "Rules", isFor: () => true },
  { to: "/audit", name: "Audit", isFor: seesRuns },
  { to: "/deliveries", name: "Deliveries", isFor: seesRuns },
  { to: "/keys", name: "API keys", isFor: (me) => me.isKnown && me.roles.includes("admin") },
] as const satisfies readonly Page[];

/** How many of them fit on a phone; the others are in a menu there. */
export const FIRST_PAGES = 2;
