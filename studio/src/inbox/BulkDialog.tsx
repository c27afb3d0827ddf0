/** A summary of the effects on the selected questions, before they are decided. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useId, useRef } from "react";
import { useMe } from "../shell/me";
import { seesRuns } from "../shell/rights";
import { visible } from "../shell/visible";
import { decideAll, REASON } from "./batches";
import { type Group, grouped, planFor } from "./bulk";
import { forgetAnswer, useDraft, write } from "./drafts";
import { counted, type Question } from "./question";
import { useOrigins } from "./workflows";

const MOST_SHOWN = 50;

interface BulkProps {
  questions: readonly Question[];
  isApproval: boolean;
  onClose: () => void;
  /** These are decided now, unless it is undone. */
  onDecided: (questions: readonly Question[]) => void;
}

export function BulkDialog({ questions, isApproval, onClose, onDecided }: BulkProps) {
  const client = useQueryClient();
  const me = useMe();
  const dialog = useRef<HTMLDialogElement>(null);
  const reason = useRef<HTMLTextAreaElement>(null);
  const note = useDraft(REASON).note ?? "";
  const noteId = useId();
  useEffect(() => {
    dialog.current?.showModal();
    reason.current?.focus();
  }, []);
  const plan = planFor(questions, me, isApproval);
  const { known } = useOrigins(
    plan.questions.flatMap(({ data, run_id }) => (data.action || run_id === undefined ? [] : [run_id])),
    seesRuns(me),
  );
  const groups = grouped(plan.questions, ({ data, run_id }) => {
    const workflow = run_id === undefined ? undefined : known.get(run_id)?.workflow;
    return data.action?.tool ?? workflow ?? "other questions";
  });
  const verb = isApproval ? "Approve" : "Reject";
  const decide = () => {
    const said = {
      approved: isApproval,
      note: note.trim() || undefined,
      user_id: me.user_id,
      groups: me.groups,
    };
    decideAll(client, plan.questions, said);
    forgetAnswer(REASON);
    onDecided(plan.questions);
  };
  return (
    <dialog ref={dialog} className="bulk" aria-labelledby={`${noteId}-title`} onClose={onClose}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (plan.questions.length > 0) decide();
        }}
      >
        <h2 id={`${noteId}-title`}>
          {verb} {counted(plan.questions.length)}?
        </h2>
        <div className="bulk-groups">
          {groups.map((group) => (
            <Grouped key={group.name} group={group} isCode />
          ))}
        </div>
        {plan.others.length > 0 && (
          <section className="bulk-others" aria-label="Not decided">
            <h3>Not decided: these stay open</h3>
            {plan.others.map((group) => (
              <Grouped key={group.name} group={group} />
            ))}
          </section>
        )}
        <label htmlFor={noteId}>{isApproval ? "Note, for each of them" : "Reason, for each of them"}</label>
        <textarea
          id={noteId}
          ref={reason}
          rows={2}
          value={note}
          onChange={(event) => write(REASON, { note: event.target.value })}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
              event.currentTarget.form?.requestSubmit();
          }}
        />
        <div className="buttons">
          <button
            type="submit"
            className={isApproval ? "primary" : "danger"}
            disabled={plan.questions.length === 0}
            title="Ctrl+Enter"
          >
            {verb} {counted(plan.questions.length)}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  );
}

function Grouped({ group: { name, items }, isCode = false }: { group: Group<Question>; isCode?: boolean }) {
  return (
    <details>
      <summary>
        {items.length.toLocaleString("en")} &times; {isCode ? <code>{name}</code> : name}
      </summary>
      <ul className="bulk-list">
        {items.slice(0, MOST_SHOWN).map(({ id, data, run_id }) => (
          <li key={id}>
            <b>{visible(data.text)}</b>
            <span>{run_id ?? id}</span>
            {data.action !== undefined && <code>{visible(JSON.stringify(data.action.arguments))}</code>}
            {"proposal" in data && <code>{visible(JSON.stringify(data.proposal))}</code>}
          </li>
        ))}
        {items.length > MOST_SHOWN && <li>and {counted(items.length - MOST_SHOWN)} more</li>}
      </ul>
    </details>
  );
}
