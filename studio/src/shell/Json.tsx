/** JSON for people: large parts are folded, and all of it can be copied. */

import { useState } from "react";
import { rawNumber } from "../api/exact";
import { CopyButton } from "./CopyButton";
import { visible } from "./visible";
import "./json.css";

/** This many items of a list or fields of an object are shown at first, and more with each click. */
const AT_ONCE = 100;
const LONGEST_TEXT = 1_000;
/** Smaller values are open at first, and so is the top level. */
const SMALL = 20;

export function Json({ value }: { value: unknown }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls can be reached by keyboard
    <div className="json" tabIndex={0} role="group" aria-label="JSON">
      <CopyButton text={() => JSON.stringify(value, null, 2)} />
      <Part value={value} isTop />
    </div>
  );
}

function Part({ name, value, isTop = false }: { name?: string; value: unknown; isTop?: boolean }) {
  const title = name === undefined ? null : <span className="name">{visible(name)}: </span>;
  if (!isBranch(value)) {
    return (
      <>
        {title}
        <Leaf value={value} />
      </>
    );
  }
  const isList = Array.isArray(value);
  const [open, close] = isList ? "[]" : "{}";
  const parts = Object.entries(value);
  if (parts.length === 0) {
    return (
      <>
        {title}
        {open}
        {close}
      </>
    );
  }
  const count = `${parts.length} ${isList ? "item" : "field"}${parts.length === 1 ? "" : "s"}`;
  return (
    <Folded
      isOpen={isTop || parts.length <= SMALL}
      summary={<Opening title={title} of={[open, close]} much={count} />}
    >
      {() => (
        <>
          <Parts parts={parts} isList={isList} />
          {close}
        </>
      )}
    </Folded>
  );
}

function Opening({ title, of, much }: { title: React.ReactNode; of: (string | undefined)[]; much: string }) {
  return (
    <>
      {title}
      {of[0]}
      <span className="much">
        {" "}
        {much} {of[1]}
      </span>
    </>
  );
}

/** Folded values are not rendered before they are opened: a payload may have a million values. */
function Folded(props: { isOpen: boolean; summary: React.ReactNode; children: () => React.ReactNode }) {
  const [isOpen, setOpen] = useState(props.isOpen);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{props.summary}</summary>
      {isOpen && props.children()}
    </details>
  );
}

function Parts({ parts, isList }: { parts: [string, unknown][]; isList: boolean }) {
  const [shown, setShown] = useState(AT_ONCE);
  return (
    <ul>
      {parts.slice(0, shown).map(([name, each]) => (
        <li key={name}>{isList ? <Part value={each} /> : <Part name={name} value={each} />}</li>
      ))}
      {parts.length > shown && (
        <li>
          <button type="button" className="more" onClick={() => setShown(shown + AT_ONCE)}>
            {parts.length - shown} more
          </button>
        </li>
      )}
    </ul>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value !== "string") return <span className="word">{rawNumber(value) ?? String(value)}</span>;
  const shown = isWhole || value.length <= LONGEST_TEXT ? value : value.slice(0, LONGEST_TEXT);
  return (
    <span className="text">
      &quot;{visible(shown)}
      {shown === value ? '"' : "… "}
      {shown !== value && (
        <button type="button" className="more" onClick={() => setWhole(true)}>
          {value.length - LONGEST_TEXT} more characters
        </button>
      )}
    </span>
  );
}

function isBranch(value: unknown): value is object {
  return typeof value === "object" && value !== null && rawNumber(value) === undefined;
}
