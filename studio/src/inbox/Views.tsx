/** Saved views beside "Mine" and "All", and the buttons to save, rename and remove them. */

import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { Dialog } from "../shell/Dialog";
import { filterOf, isEmpty, type Which } from "./filter";
import { isSame, removeView, renameView, saveView, useViews } from "./views";

type Asking = { for: "save" } | { for: "rename"; name: string };

export function Views({ which }: { which: Which }) {
  const views = useViews();
  const navigate = useNavigate();
  const [asking, setAsking] = useState<Asking>();
  const current = views.find((each) => isSame(each.which, which));
  const hasFilter = !isEmpty(filterOf({ ...which }));
  if (views.length === 0 && !hasFilter) return null;
  return (
    <div className="views" role="group" aria-label="Saved views">
      {views.map((each) => (
        <button
          key={each.name}
          type="button"
          aria-pressed={each === current}
          onClick={() => void navigate({ to: "/inbox", search: each.which as never })}
        >
          {each.name}
        </button>
      ))}
      <span className="grow" />
      {current === undefined ? (
        hasFilter && (
          <>
            <button
              type="button"
              className="quiet"
              onClick={() => void navigate({ to: ".", search: { view: which.view } as never })}
            >
              Clear
            </button>
            <button type="button" className="quiet" onClick={() => setAsking({ for: "save" })}>
              Save view
            </button>
          </>
        )
      ) : (
        <>
          <button
            type="button"
            className="quiet"
            onClick={() => setAsking({ for: "rename", name: current.name })}
          >
            Rename
          </button>
          <button type="button" className="quiet" onClick={() => removeView(current.name)}>
            Remove
          </button>
        </>
      )}
      {asking !== undefined && (
        <NameDialog
          title={asking.for === "save" ? "Save view" : "Rename view"}
          name={asking.for === "save" ? "" : asking.name}
          onName={(name) => (asking.for === "save" ? saveView(name, which) : renameView(asking.name, name))}
          onClose={() => setAsking(undefined)}
        />
      )}
    </div>
  );
}

interface NameProps {
  title: string;
  name: string;
  onName: (name: string) => void;
  onClose: () => void;
}

function NameDialog({ title, name, onName, onClose }: NameProps) {
  const [typed, setTyped] = useState(name);
  const id = useId();
  const taken = useViews().some((each) => each.name === typed.trim() && each.name !== name);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="answer"
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (typed.trim() === "") return;
          onName(typed.trim());
          onClose();
        }}
      >
        <label htmlFor={id}>Name</label>
        <input
          id={id}
          required
          maxLength={60}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
        <p role="status">{taken && "A view with this name exists. It will be replaced."}</p>
        <div className="buttons">
          <button type="submit" className="primary">
            Save
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
