/** What is around every page: where to go, who one is, decisions that can still be taken back. */

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
  ["s", "skip, where that is allowed"],
  ["t", "claim, release"],
  ["d", "delegate, reassign"],
  ["c", "comment"],
  ["z", "later"],
  ["u", "take back the last decision"],
  ["x", "select a question, Shift+click as far as another"],
  ["*", "select all that are shown"],
  ["Shift+A / Shift+R", "approve, reject what is selected"],
  ["/", "search"],
  ["Ctrl+K", "go anywhere, do anything"],
  ["Esc", "back to the list"],
  ["?", "this list"],
];

export function Shell() {
  const help = useRef<HTMLDialogElement>(null);
  useKeys({ "?": () => help.current?.showModal() });
  return (
    <Suspense fallback={null}>
      <a className="skip" href="#main" onClick={skip}>
        To the content
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

/** Who one is; where nobody is asked to sign in, that can be said. */
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
          title="Nobody signs in here: say who you are"
        />
      </label>
      <Groups />
    </>
  );
}
