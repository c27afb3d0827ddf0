/** Times relative to now, with the exact time on hover. */

import { useOfNow } from "./clock";
import { duration } from "./durations";

function exact(at: number): string {
  return new Date(at * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

interface TimeProps {
  at: number;
}

export function Since({ at }: TimeProps) {
  const text = useOfNow((now) => (now - at < 5 ? "just now" : `${duration(now - at)} ago`));
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {text}
    </time>
  );
}

export function Deadline({ at }: TimeProps) {
  const text = useOfNow((now) => (at > now ? `${duration(at - now)} left` : "deadline passed"));
  const urgency = useOfNow((now) => (at - now < 3600 ? "soon" : "later"));
  return (
    <time className={`deadline ${urgency}`} dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {text}
    </time>
  );
}

export function Until({ at }: TimeProps) {
  const text = useOfNow((now) => (at > now ? `in ${duration(at - now)}` : "due now"));
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {text}
    </time>
  );
}

/** The remaining time, as in "snoozed for 2 h". */
export function Lasting({ at }: TimeProps) {
  const text = useOfNow((now) => `for ${duration(at - now)}`);
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {text}
    </time>
  );
}
