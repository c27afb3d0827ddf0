/** Open questions on the left, the chosen one on the right. */

import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import { Guarded } from "../shell/Guarded";
import { useKeys } from "../shell/keys";
import { useMe } from "../shell/me";
import { BulkDialog } from "./BulkDialog";
import { FilterBar } from "./FilterBar";
import { type Filter, filterOf, type Which } from "./filter";
import { useMineHere } from "./mine";
import { useNotices } from "./notices";
import "./organise.css";
import { PickBar } from "./PickBar";
import { QuestionDetail } from "./QuestionDetail";
import { QuestionList } from "./QuestionList";
import { useSelection } from "./selection";
import { useInView } from "./snoozes";
import { useFound } from "./useFound";
import { useInbox, type View } from "./useInbox";
import { useListed, useUndecided } from "./useListed";
import { Views } from "./Views";

const NAMES: Record<View, string> = { mine: "Mine", snoozed: "Snoozed", all: "All" };

export function InboxPage() {
  const me = useMe();
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const view = search.view === "all" || search.view === "snoozed" ? search.view : "mine";
  const filter = useMemo(() => filterOf(search), [search]);
  const { id } = useParams({ strict: false }) as { id?: string };
  const navigate = useNavigate();
  const read = useInbox(view, me.names, useNotices());
  const inbox = { ...read, questions: useInView(read.questions, view, me.user_id) };
  const open = useUndecided(inbox.questions, id);
  const found = useFound(read, view, me.names, filter);
  const listed = useListed({ ...found, questions: useInView(found.questions, view, me.user_id) }, filter, id);
  const { shown } = listed;
  const selection = useSelection(shown);
  const [asked, setAsked] = useState<boolean>();
  const at = shown.findIndex((each) => each.id === id);
  useEffect(() => {
    document.title = "Signoff";
  }, []);
  useMineHere(view, inbox.isSuccess, open.length, inbox.hasNextPage);

  const show = useCallback(
    (next: string | undefined) =>
      next === undefined
        ? navigate({ to: "/inbox", search: (kept) => kept })
        : navigate({ to: "/inbox/$id", params: { id: next }, search: (kept) => kept }),
    [navigate],
  );
  const look = (which: Which) => navigate({ to: ".", search: which as never, replace: true });
  const step = (by: number) => {
    const next = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
    if (next !== undefined) void show(next.id);
  };
  const pickHere = () => {
    const row = document.activeElement?.closest<HTMLElement>("[data-question]");
    const here = row?.dataset.question ?? id;
    if (here !== undefined && shown.some((each) => each.id === here)) selection.pick(here, false);
  };
  const hasPicked = selection.picked.size > 0;
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    x: pickHere,
    "*": selection.pickAll,
    "Shift+A": () => hasPicked && setAsked(true),
    "Shift+R": () => hasPicked && setAsked(false),
    escape: () => (hasPicked ? selection.clear() : void show(undefined)),
  });

  const plus = inbox.hasNextPage ? "+" : "";
  const waiting = `${open.length.toLocaleString("en")}${plus}`;
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
                onClick={() => navigate({ to: ".", search: { ...filter, view: each } as never })}
              >
                {NAMES[each]}
              </button>
            ))}
          </fieldset>
        </header>
        <FilterBar filter={filter} onChange={(next: Filter) => look({ view, ...next })} />
        <Views which={{ view, ...filter }} />
        <PickBar
          selection={selection}
          shown={shown.length}
          found={listed.isFiltered ? foundSaid(shown.length, waiting, listed.isLooking) : undefined}
          onLookOn={listed.lookOn}
          onDecide={setAsked}
        />
        {listed.error !== null && <p className="trouble">{listed.error.message}</p>}
        {inbox.isSuccess && shown.length === 0 && !listed.isLooking ? (
          <Nothing isFiltered={listed.isFiltered} view={view} />
        ) : (
          <QuestionList
            key={JSON.stringify([view, filter])}
            questions={shown}
            isWhole={!found.hasNextPage}
            selected={id}
            onEnd={listed.next}
            picked={selection.picked}
            onPick={selection.pick}
          />
        )}
      </section>
      <section className="inbox-detail" aria-label="Question">
        {id === undefined ? (
          <p className="hint">
            <kbd>j</kbd> <kbd>k</kbd> choose, <kbd>a</kbd> approves, <kbd>r</kbd> rejects, <kbd>x</kbd>{" "}
            selects, <kbd>Ctrl</kbd> <kbd>K</kbd> goes anywhere, <kbd>?</kbd> shows all keys
          </p>
        ) : (
          <Guarded key={id} name={`Question ${id}`}>
            <QuestionDetail id={id} onDecided={() => show(shown[at + 1]?.id ?? shown[at - 1]?.id)} />
          </Guarded>
        )}
      </section>
      {asked !== undefined && (
        <BulkDialog
          questions={shown.filter((each) => selection.picked.has(each.id))}
          isApproval={asked}
          onClose={() => setAsked(undefined)}
          onDecided={(decided) => {
            setAsked(undefined);
            selection.clear();
            if (decided.some((each) => each.id === id)) void show(undefined);
          }}
        />
      )}
    </div>
  );
}

function foundSaid(found: number, of: string, isLooking: boolean): string {
  const said = `${found.toLocaleString("en")} of ${of}`;
  return isLooking ? `${said}, looking on` : said;
}

function Nothing({ isFiltered, view }: { isFiltered: boolean; view: View }) {
  if (isFiltered)
    return (
      <div className="empty">
        <h2>No matching questions</h2>
        <p>Remove a filter, or search all questions instead of mine.</p>
      </div>
    );
  return (
    <div className="empty">
      <h2>Nothing waits for you</h2>
      <p>
        A workflow asks with <code>await ctx.wait_for_user(&quot;Refund o-1?&quot;)</code>. Its question
        appears here at once.
      </p>
      {view === "mine" && (
        <p>
          Questions to other people are under{" "}
          <Link to="." search={{ view: "all" } as never}>
            All
          </Link>
          .
        </p>
      )}
    </div>
  );
}
