/** The frame of every page: navigation, the user, decisions that can still be undone. */

import { Outlet } from "@tanstack/react-router";
import { type MouseEvent, Suspense, useRef } from "react";
import { Toasts } from "../inbox/Toasts";
import { Badge, NotifySwitch } from "./Badge";
import { useKeys } from "./keys";
import { Groups } from "./Groups";
import { sayName, useMe } from "./me";
import { Navigation } from "./Navigation";
import { Palette } from "./Palette";

const KEYS: [string, string][] = [
  ["j / k", "next, previous question"],
  ["a", "approve"],
  ["r", "reject"],
  ["e", "edit the proposal"],
  ["s", "skip, where allowed"],
  ["t", "claim, release"],
  ["d", "delegate, reassign"],
  ["c", "comment"],
  ["z", "later"],
  ["u", "undo the last decision"],
  ["x", "select a question, Shift+click for a range"],
  ["*", "select all shown questions"],
  ["Shift+A / Shift+R", "approve, reject the selection"],
  ["/", "search"],
  ["Ctrl+K", "command palette"],
  ["Esc", "back to the list"],
  ["?", "this list"],
];

export function Shell() {
  const help = useRef<HTMLDialogElement>(null);
  useKeys({ "?": () => help.current?.showModal() });
  return (
    <Suspense fallback={null}>
      <a className="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <div className="shell">
        <nav aria-label="Studio">
          <strong className="brand">Signoff</strong>
          <Navigation />
          <Palette />
          <span className="grow" />
          <NotifySwitch />
          <button
            type="button"
            className="quiet"
            aria-keyshortcuts="?"
            onClick={() => help.current?.showModal()}
          >
            Shortcuts
          </button>
          <Who />
        </nav>
        <main id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Toasts />
      <Badge />
      <dialog ref={help} aria-label="Shortcuts">
        <h2>Shortcuts</h2>
        <dl className="keys">
          {KEYS.map(([key, what]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </Suspense>
  );
}

/** With a base address the link would lead to the first page's content. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** The user; where there is no sign-in, the name can be entered. */
function Who() {
  const me = useMe();
  if (me.isKnown) return <span className="who">{me.user_id}</span>;
  return (
    <>
      <label className="who">
        <span className="who-label">Your name</span>
        <input
          value={me.user_id}
          maxLength={100}
          onChange={(event) => sayName(event.target.value)}
          title="This server has no sign-in: enter your name"
        />
      </label>
      <Groups />
    </>
  );
}
