/** The pages of Studio that one may go to. */

import type { Me } from "./me";
import { seesRuns } from "./rights";

interface Page {
  to: string;
  name: string;
  isFor: (me: Me) => boolean;
}

export const PAGES = [
  { to: "/inbox", name: "Inbox", isFor: () => true },
  { to: "/runs", name: "Runs", isFor: seesRuns },
] as const satisfies readonly Page[];
