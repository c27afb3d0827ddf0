/** The calls of a run, one item for each. */

import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { whence } from "../audit/origin";
import { Guarded } from "../shell/Guarded";
import { Json } from "../shell/Json";
import { visible } from "../shell/visible";
import { duration } from "../time/durations";
import { Since, Until } from "../time/Times";
import { Failure } from "./Failure";
import { argumentsText } from "./run";
import { StateMark } from "./StateMark";
import { type FailedAttempt, foldedParts, isPromised, type Item } from "./timeline";

interface TimelineProps {
  items: readonly Item[];
  isLive: boolean;
}

export function Timeline({ items, isLive }: TimelineProps) {
  return (
    <ol className="timeline" aria-label="Timeline" aria-busy={isLive}>
      {foldedParts(items).map((part) =>
        part.isFolded ? (
          <Alike key={part.items[0]?.seq} items={part.items} />
        ) : (
          part.items.map((item) => <GuardedItem key={item.seq} item={item} />)
        ),
      )}
    </ol>
  );
}

/** Consecutive items of the same name, such as the steps of a loop. */
function Alike({ items }: { items: readonly Item[] }) {
  const [isOpen, setOpen] = useState(false);
  const [first] = items as [Item];
  if (isOpen) return items.map((item) => <GuardedItem key={item.seq} item={item} />);
  return (
    <li className="item alike">
      <button type="button" className="more" aria-expanded={false} onClick={() => setOpen(true)}>
        {items.length} more: {first.kind} {visible(first.name)}
      </button>
    </li>
  );
}

function GuardedItem({ item }: { item: Item }) {
  return (
    <Guarded name={`Entry ${String(item.seq)}`}>
      <TimelineItem item={item} />
    </Guarded>
  );
}

function TimelineItem({ item }: { item: Item }) {
  const took = item.endedAt === undefined ? 0 : item.endedAt - item.at;
  return (
    <li className={`item ${item.state}`}>
      <p className="item-head">
        <span className="item-kind">{item.kind}</span>
        <span className="item-name">{visible(item.name)}</span>
        {item.state !== "noted" && item.kind !== "run" && <StateMark state={item.state} />}
        {isShort(item) && <code className="item-value">{written(item)}</code>}
        <span className="item-time">
          {took >= 1 && `${waits(item) ? "waited" : "took"} ${duration(took)}, `}
          <Since at={item.at} />
        </span>
      </p>
      <Details item={item} />
      <Where item={item} />
      {item.attempts.length > 0 && <Attempts attempts={item.attempts} />}
      {item.error !== undefined && item.kind !== "run" && <Failure error={item.error} />}
      {isLong(item) && <Value item={item} />}
    </li>
  );
}

function waits({ kind }: Item): boolean {
  return ["question", "promise", "signal", "timer"].includes(kind);
}

function Details({ item }: { item: Item }) {
  const who = authorOf(item);
  if (who !== undefined) {
    return (
      <p className="item-more">
        {who}
        {item.origin !== undefined && item.origin.way !== "timer" && `, ${visible(whence(item.origin))}`}
        {item.note ? `: ${visible(item.note)}` : ""}
      </p>
    );
  }
  return item.note ? <p className="item-more">{visible(item.note)}</p> : null;
}

/** Without a name, a word stands for the author: origins are looked up later, and must not move the text. */
function authorOf(item: Item): string | undefined {
  if (item.by) return `by ${visible(item.by)}`;
  const isSettled = item.state === "succeeded" || item.state === "rejected";
  return isPromised(item) && isSettled ? "by a person" : undefined;
}

/** The link to continue at: the question that is waited for. */
function Where({ item }: { item: Item }) {
  const { kind, state, id } = item;
  const isOpen = state === "open";
  if (item.doubt !== undefined && isOpen) {
    return (
      <p className="item-more">
        It was interrupted, and may or may not have happened:{" "}
        <Link to="/inbox/$id" params={{ id: item.doubt }}>
          say which
        </Link>
      </p>
    );
  }
  if (state === "retrying") return <Next at={item.attempts.at(-1)?.nextAt ?? item.at} />;
  if (kind === "question" && id !== undefined) {
    return (
      <p className="item-more">
        <Link to="/inbox/$id" params={{ id }}>
          {isOpen ? "Waits for an answer" : "The question"}
        </Link>
        {isOpen && <Due item={item} />}
      </p>
    );
  }
  if ((kind === "child" || kind === "detached") && id !== undefined) {
    return (
      <p className="item-more">
        <Link to="/runs/$id" params={{ id }}>
          {id}
        </Link>
      </p>
    );
  }
  if (!isOpen) return null;
  if (kind === "timer") {
    return (
      <p className="item-more">
        goes on <Until at={item.dueAt ?? item.at} />
      </p>
    );
  }
  if (kind === "signal" || kind === "promise") {
    return (
      <p className="item-more">
        waits{id !== undefined && " for "}
        {id !== undefined && kind === "promise" ? (
          <Link to="/promises/$id" params={{ id }}>
            {visible(id)}
          </Link>
        ) : (
          id !== undefined && visible(id)
        )}
        <Due item={item} />
      </p>
    );
  }
  return null;
}

function Due({ item }: { item: Item }) {
  if (item.dueAt === undefined) return null;
  return (
    <>
      , times out <Until at={item.dueAt} />
    </>
  );
}

function Next({ at }: { at: number }) {
  return (
    <p className="item-more">
      the next attempt <Until at={at} />
    </p>
  );
}

const SMALL = 60;

function isShort(item: Item): boolean {
  return hasValue(item) && !isAsked(item) && written(item).length <= SMALL;
}

function isLong(item: Item): boolean {
  return hasValue(item) && !isShort(item);
}

function hasValue({ kind, value }: Item): boolean {
  return value !== undefined && value !== null && kind !== "run";
}

function isAsked({ kind, state }: Item): boolean {
  return kind === "question" && state === "open";
}

/** A value in a line; for an active child run, its input. */
function written({ kind, state, value }: Item): string {
  const isGiven = (kind === "child" && state === "open") || kind === "detached";
  return visible(isGiven ? argumentsText(value) : JSON.stringify(value));
}

function Value({ item }: { item: Item }) {
  return (
    <details className="item-value">
      <summary>{isAsked(item) ? "Question" : "Value"}</summary>
      <Json value={item.value} />
    </details>
  );
}

function Attempts({ attempts }: { attempts: readonly FailedAttempt[] }) {
  return (
    <details>
      <summary>
        {attempts.length} failed {attempts.length === 1 ? "attempt" : "attempts"}
      </summary>
      {attempts.map((each) => (
        <div key={each.number} className="attempt">
          <p>
            Attempt {each.number}, <Since at={each.at} />
          </p>
          {each.error === undefined || each.error === null ? (
            <p>It is unknown whether it happened; a person decided to repeat it.</p>
          ) : (
            <Failure error={each.error} />
          )}
        </div>
      ))}
    </details>
  );
}
