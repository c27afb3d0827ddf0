/** The command palette: opens any page, question or run, and runs the page's actions, by keyboard. */

import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useId, useMemo, useRef, useState } from "react";
import { actionsHere, type Command, find, knownQuestions, knownRuns } from "./commands";
import { useMe } from "./me";
import { PAGES } from "./pages";
import "./palette.css";

export function Palette() {
  const [commands, setCommands] = useState<readonly Command[]>();
  const client = useQueryClient();
  const navigate = useNavigate();
  const me = useMe();
  const open = useCallback(() => {
    if (document.querySelector("dialog[open]") !== null) return;
    const questions = knownQuestions(client);
    setCommands([
      ...actionsHere(),
      ...PAGES.filter((each) => each.isFor(me)).map(({ to, name }) => ({
        id: to,
        kind: "Page" as const,
        text: name,
        run: () => void navigate({ to }),
      })),
      ...questions
        .filter((each) => each.state === "pending")
        .map((each) => ({
          id: each.id,
          kind: "Question" as const,
          text: each.data.text,
          more: each.run_id ?? each.id,
          run: () => void navigate({ to: "/inbox/$id", params: { id: each.id }, search: (kept) => kept }),
        })),
      ...knownRuns(client, questions).map((id) => ({
        id: `run:${id}`,
        kind: "Run" as const,
        text: id,
        run: () => void navigate({ to: "/runs/$id", params: { id } }),
      })),
    ]);
  }, [client, navigate, me]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      event.preventDefault();
      open();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [open]);
  return (
    <>
      <button type="button" className="find" aria-haspopup="dialog" onClick={open}>
        Find <kbd>Ctrl K</kbd>
      </button>
      {commands !== undefined && (
        <Chooser
          commands={commands}
          goToRun={(id) => void navigate({ to: "/runs/$id", params: { id } })}
          onClose={() => setCommands(undefined)}
        />
      )}
    </>
  );
}

interface ChooserProps {
  commands: readonly Command[];
  goToRun: (id: string) => void;
  onClose: () => void;
}

function Chooser({ commands, goToRun, onClose }: ChooserProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const found = useMemo(() => find(commands, typed, goToRun), [commands, typed, goToRun]);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  useEffect(() => {
    document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [id, at]);
  const choose = (command: Command | undefined) => {
    if (command === undefined) return;
    dialog.current?.close();
    command.run();
  };
  const move = (to: number) => setAt((to + found.length) % Math.max(found.length, 1));
  const moves: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(at + 1),
    ArrowUp: () => move(at - 1),
    PageDown: () => setAt(Math.max(0, Math.min(at + 10, found.length - 1))),
    PageUp: () => setAt(Math.max(at - 10, 0)),
    Enter: () => choose(found[at]),
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Command palette" onClose={onClose}>
      <input
        role="combobox"
        aria-label="Search commands"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={found.length > 0 ? `${id}-${at}` : undefined}
        placeholder="Open a page, a question or a run, or run an action"
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const action = moves[event.key];
          if (action === undefined || event.nativeEvent.isComposing) return;
          event.preventDefault();
          action();
        }}
      />
      <div className="palette-list" role="listbox" id={`${id}-list`} aria-label="Commands">
        {found.map((each, index) => (
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events -- the field above has the keys
          <div
            key={`${each.kind} ${each.id}`}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === at}
            tabIndex={-1}
            onClick={() => choose(each)}
            onPointerMove={() => setAt(index)}
          >
            <small>{each.kind}</small>
            <span className="palette-text">{each.text}</span>
            {each.more !== undefined && <span className="palette-more">{each.more}</span>}
            {each.keys !== undefined && <kbd>{each.keys}</kbd>}
          </div>
        ))}
      </div>
      <p className="unseen" role="status">
        {found.length === 0 ? "Nothing found" : `${found.length} found`}
      </p>
      {found.length === 0 && <p aria-hidden="true">Nothing found</p>}
    </dialog>
  );
}
