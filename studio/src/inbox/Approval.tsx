/** The form of an approval: yes, no, and an edited proposal. */

import { lazy, useRef, useState } from "react";
import { Json } from "../shell/Json";
import { useKeys } from "../shell/keys";
import { AllLike } from "./AllLike";
import { type Alike, lengthOf, mayBeAlike } from "./alike";
import { isSame } from "./edits";
import { ProposalDiff } from "./ProposalDiff";
import { isHeld, type Question } from "./question";

const SchemaForm = lazy(() => import("./SchemaForm"));

interface ApprovalProps {
  question: Question;
  /** The edited proposal, if it was edited. */
  value: unknown;
  onChange: (value: unknown) => void;
  /** The rule to approve others with it, if chosen. */
  alike: Alike | undefined;
  onAlike: (alike: Alike | undefined) => void;
  onDecide: (value: unknown, said: string, alike?: Alike) => void;
  /** Decide, if `value` matches `schema`. */
  onDecideChecked: (value: unknown, said: string, schema: object, checked: unknown) => void;
}

export function Approval(props: ApprovalProps) {
  const { question, value, onChange, alike, onAlike, onDecide, onDecideChecked } = props;
  const { proposal, answer_schema, policy } = question.data;
  const hasProposal = "proposal" in question.data;
  const isPlain = isHeld(proposal);
  const canEdit = hasProposal && isPlain && policy?.quorum === undefined;
  const [isEditing, setEditing] = useState(value !== undefined);
  const edited = value === undefined ? proposal : value;
  const isChanged = isEditing && !isSame(edited, proposal);
  const properties = answer_schema.properties as Record<string, object> | undefined;
  const schema = properties?.edited ?? {};
  const isAlike = mayBeAlike(question) && !isChanged;
  const buttons = useRef<HTMLDivElement>(null);
  const approve = () => {
    if ((isEditing || alike !== undefined) && !buttons.current?.closest("form")?.reportValidity()) return;
    if (isChanged) onDecideChecked({ approved: true, edited }, "Approved as edited", schema, edited);
    else if (alike !== undefined && isAlike)
      onDecide({ approved: true }, `Approved, and all like it ${lengthOf(alike)}`, alike);
    else onDecide({ approved: true }, "Approved");
  };
  const reject = () => onDecide({ approved: false }, "Rejected");
  const edit = () => setEditing(true);
  const stop = () => {
    setEditing(false);
    onChange(undefined);
  };
  useKeys({ a: approve, r: reject, ...(canEdit && { e: edit }) });
  return (
    <>
      {hasProposal && (
        <div className="proposal">
          <section aria-label="Proposal">
            <h3>{isEditing ? "Edit the proposal" : "Proposal"}</h3>
            {isPlain ? (
              <SchemaForm
                key={String(isEditing)}
                schema={schema}
                value={edited}
                onChange={onChange}
                isReadOnly={!isEditing}
              />
            ) : (
              <>
                <Json value={proposal} />
                <p className="hint">
                  A form would round its numbers: it is edited by <code>signoff answer --edit</code>.
                </p>
              </>
            )}
          </section>
          {isEditing && <ProposalDiff proposal={proposal} edited={edited} />}
        </div>
      )}
      {isAlike && <AllLike question={question} alike={alike} onChange={onAlike} />}
      {alike !== undefined && isChanged && (
        <p className="hint">Others like it are approved with what is proposed, not with what is edited.</p>
      )}
      <div className="buttons" ref={buttons}>
        <button type="button" className="primary" onClick={approve} aria-keyshortcuts="a">
          {isChanged
            ? "Approve as edited"
            : isAlike && alike !== undefined
              ? "Approve all like this"
              : "Approve"}
        </button>
        <button type="button" className="danger" onClick={reject} aria-keyshortcuts="r">
          Reject
        </button>
        {canEdit && !isEditing && (
          <button type="button" onClick={edit} aria-keyshortcuts="e">
            Edit
          </button>
        )}
        {isEditing && (
          <button type="button" onClick={stop}>
            Keep the proposal
          </button>
        )}
      </div>
    </>
  );
}
