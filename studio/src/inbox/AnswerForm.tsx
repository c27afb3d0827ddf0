/** The form by which a question is answered, of its input type. */

import { lazy, useId, useState } from "react";
import { Refused } from "../api/client";
import { useKeys } from "../shell/keys";
import { forget, useDraft, write } from "./drafts";
import type { Question } from "./question";

const SchemaForm = lazy(() => import("./SchemaForm")); // half of all the code

export interface AnswerProps {
  question: Question;
  /** Give an answer: its value, a note, and what a toast says of it. */
  onAnswer: (value: unknown, note: string | undefined, said: string) => void;
  refusal: Error | undefined;
}

interface InputProps {
  question: Question;
  value: unknown;
  onChange: (value: unknown) => void;
}

export function AnswerForm({ question, onAnswer, refusal }: AnswerProps) {
  const draft = useDraft(question.id);
  const { data } = question;
  const value = "value" in draft ? draft.value : data.default;
  const noteId = useId();
  const give = (given: unknown, said: string) => {
    onAnswer(given, draft.note?.trim() || undefined, said);
    forget(question.id);
  };
  const change = (next: unknown) => write(question.id, { value: next });
  const fields = refusal instanceof Refused ? (refusal.problem.fields ?? []) : [];
  return (
    <form
      className="answer"
      onSubmit={(event) => {
        event.preventDefault();
        if (data.input_type !== "approval") give(value, "Answered");
      }}
    >
      {fields.length > 0 && (
        <ul className="trouble" role="alert">
          {fields.map(({ field, message }) => (
            <li key={field + message}>
              {field && <b>{field}: </b>}
              {message}
            </li>
          ))}
        </ul>
      )}
      {data.input_type === "approval" ? (
        <Approval question={question} value={draft.value} onChange={change} onDecide={give} />
      ) : (
        <>
          <Input question={question} value={value} onChange={change} />
          <button type="submit" className="primary">
            Answer
          </button>
        </>
      )}
      {data.skippable && (
        <button type="button" onClick={() => give(null, "Skipped")}>
          Skip
        </button>
      )}
      <label htmlFor={noteId}>Note</label>
      <textarea
        id={noteId}
        rows={2}
        value={draft.note ?? ""}
        onChange={(event) => write(question.id, { note: event.target.value })}
      />
    </form>
  );
}

interface ApprovalProps extends InputProps {
  onDecide: (value: unknown, said: string) => void;
}

function Approval({ question, value, onChange, onDecide }: ApprovalProps) {
  const { proposal, answer_schema } = question.data;
  const hasProposal = "proposal" in question.data;
  const [isEditing, setEditing] = useState(value !== undefined);
  const edited = value === undefined ? proposal : value;
  const isChanged = isEditing && JSON.stringify(edited) !== JSON.stringify(proposal);
  const approve = () =>
    isChanged
      ? onDecide({ approved: true, edited }, "Approved as edited")
      : onDecide({ approved: true }, "Approved");
  const reject = () => onDecide({ approved: false }, "Rejected");
  useKeys({ a: approve, r: reject, ...(hasProposal && { e: () => setEditing(true) }) });
  const properties = answer_schema.properties as Record<string, object> | undefined;
  return (
    <>
      {hasProposal && (
        <section aria-label="Proposal">
          <h3>{isEditing ? "Edit the proposal" : "Proposal"}</h3>
          <SchemaForm
            schema={properties?.edited ?? {}}
            value={edited}
            onChange={onChange}
            isReadOnly={!isEditing}
          />
        </section>
      )}
      <div className="buttons">
        <button type="button" className="primary" onClick={approve} aria-keyshortcuts="a">
          {isChanged ? "Approve as edited" : "Approve"}
        </button>
        <button type="button" className="danger" onClick={reject} aria-keyshortcuts="r">
          Reject
        </button>
        {hasProposal && !isEditing && (
          <button type="button" onClick={() => setEditing(true)} aria-keyshortcuts="e">
            Edit
          </button>
        )}
      </div>
    </>
  );
}

function Input(props: InputProps) {
  const { question, value, onChange } = props;
  const id = useId();
  switch (question.data.input_type) {
    case "text":
      return (
        <>
          <label htmlFor={id}>Answer</label>
          <textarea
            id={id}
            rows={4}
            value={(value as string | undefined) ?? ""}
            onChange={(event) => onChange(event.target.value)}
          />
        </>
      );
    case "select":
      return <Choice {...props} />;
    case "multiselect":
      return <Choices {...props} />;
    default:
      return (
        <SchemaForm
          schema={question.data.answer_schema}
          value={value}
          onChange={onChange}
          isReadOnly={false}
        />
      );
  }
}

function otherOf(value: unknown): string | undefined {
  return typeof value === "object" && value !== null && "other" in value ? String(value.other) : undefined;
}

function Choice({ question, value, onChange }: InputProps) {
  const name = useId();
  const { options, other, text } = question.data;
  const written = otherOf(value);
  return (
    <fieldset className="options">
      <legend className="unseen">{text}</legend>
      {options.map((option) => (
        <label key={option.value}>
          <input
            type="radio"
            name={name}
            checked={value === option.value}
            onChange={() => onChange(option.value)}
          />
          <span>
            {option.label ?? option.value}
            {option.help && <small>{option.help}</small>}
          </span>
        </label>
      ))}
      {other !== undefined && (
        <label>
          <input
            type="radio"
            name={name}
            checked={written !== undefined}
            onChange={() => onChange({ other: written ?? "" })}
          />
          <span>
            {other}
            <input
              type="text"
              aria-label={other}
              value={written ?? ""}
              onChange={(event) => onChange({ other: event.target.value })}
            />
          </span>
        </label>
      )}
    </fieldset>
  );
}

function Choices({ question, value, onChange }: InputProps) {
  const { options, other, text } = question.data;
  const chosen = Array.isArray(value) ? (value as unknown[]) : [];
  const written = chosen.map(otherOf).find((each) => each !== undefined);
  const withOther = (next: string) => {
    const rest = chosen.filter((each) => otherOf(each) === undefined);
    onChange(next === "" ? rest : [...rest, { other: next }]);
  };
  return (
    <fieldset className="options">
      <legend className="unseen">{text}</legend>
      {options.map((option) => (
        <label key={option.value}>
          <input
            type="checkbox"
            checked={chosen.includes(option.value)}
            onChange={(event) =>
              onChange(
                event.target.checked
                  ? [...chosen, option.value]
                  : chosen.filter((each) => each !== option.value),
              )
            }
          />
          <span>
            {option.label ?? option.value}
            {option.help && <small>{option.help}</small>}
          </span>
        </label>
      ))}
      {other !== undefined && (
        <label className="other">
          <span>{other}</span>
          <input type="text" value={written ?? ""} onChange={(event) => withOther(event.target.value)} />
        </label>
      )}
    </fieldset>
  );
}
