/** Open questions on the left, the chosen one on the right. */

import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect } from "react";
import { useKeys } from "../shell/keys";
import { useMe } from "../shell/me";
import { useDecisions } from "./decisions";
import { QuestionDetail } from "./QuestionDetail";
import { QuestionList } from "./QuestionList";
import { useAsleep } from "./snoozes";
import { useInbox, type View } from "./useInbox";

const NAMES: Record<View, string> = { mine: "Mine", snoozed: "Snoozed", all: "All" };

export function InboxPage() {
  const me = useMe();
  const { view = "mine" } = useSearch({ strict: false }) as { view?: View };
  const { id } = useParams({ strict: false }) as { id?: string };
  const navigate = useNavigate();
  const inbox = useInbox(view, me.names);
  const decided = new Set(useDecisions().map((each) => each.question.id));
  const asleep = useAsleep(inbox.questions, me.user_id);
  const shown = inbox.questions.filter(
    (each) => view === "all" || asleep.has(each.id) === (view === "snoozed"),
  );
  const open = shown.filter((each) => !decided.has(each.id) || each.id === id);
  const at = open.findIndex((each) => each.id === id);

  const show = useCallback(
    (next: string | undefined) =>
      next === undefined
        ? navigate({ to: "/inbox", search: (kept) => kept })
        : navigate({ to: "/inbox/$id", params: { id: next }, search: (kept) => kept }),
    [navigate],
  );
  const step = (by: number) => {
    const next = open[Math.min(Math.max(at + by, 0), open.length - 1)];
    if (next !== undefined) void show(next.id);
  };
  useKeys({ j: () => step(1), k: () => step(-1), escape: () => void show(undefined) });

  const { fetchNextPage, hasNextPage, isFetchingNextPage } = inbox;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);

  const waiting = `${open.length}${hasNextPage ? "+" : ""}`;
  useEffect(() => {
    document.title = open.length === 0 ? "Signoff" : `(${waiting}) Signoff`;
  }, [open.length, waiting]);

  return (
    <div className={id === undefined ? "inbox" : "inbox with-detail"}>
      <section className="inbox-list" aria-label="Inbox">
        <header className="bar">
          <h1>Inbox</h1>
          <span className="count" role="status" aria-label={`${waiting} open`}>
            {waiting}
          </span>
          <fieldset className="segments" aria-label="Which questions">
            {(["mine", "snoozed", "all"] as const).map((each) => (
              <button
                key={each}
                type="button"
                aria-pressed={each === view}
                onClick={() => navigate({ to: ".", search: { view: each } })}
              >
                {NAMES[each]}
              </button>
            ))}
          </fieldset>
        </header>
        {inbox.isError && <p className="trouble">{inbox.error.message}</p>}
        {inbox.isSuccess && open.length === 0 ? (
          <div className="empty">
            <h2>Nothing waits for you</h2>
            <p>
              A workflow asks with <code>await ctx.wait_for_user("Refund o-1?")</code>. Its question appears
              here at once.
            </p>
          </div>
        ) : (
          <QuestionList questions={open} selected={id} onEnd={onEnd} />
        )}
      </section>
      <section className="inbox-detail" aria-label="Question">
        {id === undefined ? (
          <p className="hint">
            <kbd>j</kbd> <kbd>k</kbd> choose, <kbd>a</kbd> approves, <kbd>r</kbd> rejects, <kbd>?</kbd> shows
            all keys
          </p>
        ) : (
          <QuestionDetail key={id} id={id} onDecided={() => show(open[at + 1]?.id ?? open[at - 1]?.id)} />
        )}
      </section>
    </div>
  );
}
