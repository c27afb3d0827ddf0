/** The number of shown and selected questions, and the buttons for the selection. */

import type { useSelection } from "./selection";

interface PickProps {
  selection: ReturnType<typeof useSelection>;
  shown: number;
  /** The number of matches and of searched questions, during a search. */
  found: string | undefined;
  onLookOn: (() => void) | undefined;
  onDecide: (isApproval: boolean) => void;
}

export function PickBar({ selection, shown, found, onLookOn, onDecide }: PickProps) {
  const count = selection.picked.size;
  const isPlain = count === 0 && found === undefined && shown > 0;
  const isAll = count > 0 && count === shown;
  return (
    <div className="picks" role="group" aria-label="Selected questions">
      <label className="pick">
        <input
          type="checkbox"
          checked={isAll}
          ref={(box) => {
            if (box !== null) box.indeterminate = count > 0 && !isAll;
          }}
          disabled={shown === 0}
          onChange={() => (isAll ? selection.clear() : selection.pickAll())}
        />
        <span className={isPlain ? "picks-all" : "unseen"}>
          Select all <span className="unseen">{shown.toLocaleString("en")} shown</span>
        </span>
      </label>
      <span className="picks-said" role="status">
        {count > 0 ? `${count.toLocaleString("en")} selected` : found}
      </span>
      {count > 0 ? (
        <>
          <button type="button" aria-keyshortcuts="Shift+A" onClick={() => onDecide(true)}>
            Approve<span className="unseen"> selected</span>
          </button>
          <button
            type="button"
            className="danger"
            aria-keyshortcuts="Shift+R"
            onClick={() => onDecide(false)}
          >
            Reject<span className="unseen"> selected</span>
          </button>
        </>
      ) : (
        onLookOn !== undefined && (
          <button type="button" onClick={onLookOn}>
            Search more
          </button>
        )
      )}
    </div>
  );
}
