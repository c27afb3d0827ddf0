/** The number of waiting questions in the tab, and the switch for notifications. */

import { useEffect, useRef } from "react";
import { fresh, useMine } from "../inbox/mine";
import { type Notices, useNotices, useNoticesState, want } from "../inbox/notices";
import type { QuestionPage } from "../inbox/useInbox";
import { useMe } from "./me";
import { useBadge } from "./title";

export function Badge() {
  const { mine, seen } = useMine(useMe());
  const tell = useNotices();
  const before = useRef<QuestionPage>(undefined);
  useEffect(() => {
    if (seen !== undefined) for (const each of fresh(before.current, seen)) tell(each);
    before.current = seen;
  }, [seen, tell]);
  useBadge(mine === undefined || mine.count === 0 ? "" : `${mine.count}${mine.isMore ? "+" : ""}`);
  return null;
}

const SAID: Readonly<Record<Notices, string>> = {
  on: "New questions of yours show a notification",
  off: "Show notifications of new questions of yours",
  denied: "Your browser's settings do not allow notifications of this page",
  impossible: "Browsers show notifications on https and on this machine only",
};

export function NotifySwitch() {
  const notices = useNoticesState();
  return (
    <button
      type="button"
      className="quiet notify"
      role="switch"
      aria-checked={notices === "on"}
      disabled={notices === "denied" || notices === "impossible"}
      title={SAID[notices]}
      onClick={() => void want(notices !== "on")}
    >
      Notify me: {notices === "on" ? "on" : "off"}
    </button>
  );
}
