/** The form that answers a question, by its input type. */

import { lazy, useId, useRef, useState } from "react";
import { Refused } from "../api/client";
import { useKeys } from "../shell/keys";
import type { Alike } from "./alike";
import { Approval } from "./Approval";
import { errorsOf } from "./checked";
import type { Wrong } from "./checks";
import { Choices } from "./Choices";
import { forgetAnswer, useDraft, write } from "./drafts";
import type { Question } from "./question";

const SchemaForm = lazy(() => import("./SchemaForm")); // half of all the code

export interface AnswerProps {
  question: Question;
  /** Give an answer: its value, a note, and the toast's text. */
  onAnswer: (value: unknown, note: string | undefined, said: string, alike?: Alike) => void;
  refusal: Error | undefined;
}

export function AnswerForm({ question, onAnswer, refusal }: AnswerProps) {
  const draft = useDraft(question.id);
  const [wrong, setWrong] = useState<Wrong[]>([]);
  const { data } = question;
  const value = "value" in draft ? draft.value : data.default;
  const noteId = useId();
  const give = (given: unknown, said: string, alike?: Alike) => {
    onAnswer(given, draft.note?.trim() || undefined, said, alike);
    forgetAnswer(question.id);
  };
  const isChecking = useRef(false);
  const giveChecked = async (given: unknown, said: string, schema: object, checked: unknown) => {
    if (isChecking.current) return;
    isChecking.current = true;
    const found = await errorsOf(schema, checked);
    isChecking.current = false;
    setWrong(found);
    if (found.length === 0) give(given, said);
  };
  const submit = () => {
    if (data.input_type === "form" || data.input_type === "external") {
      void giveChecked(value ?? {}, "Answered", data.answer_schema, value ?? {});
    } else {
      give(value ?? (data.input_type === "text" ? "" : []), "Answered");
    }
  };
  const skip = () => give(null, "Skipped");
  const change = (next: unknown) => write(question.id, { value: next });
  useKeys({ ...(data.skippable && { s: skip }) });
  const refused = refusal instanceof Refused ? (refusal.problem.fields ?? []) : [];
  return (
    <form
      className="answer"
      onSubmit={(event) => {
        event.preventDefault();
        if (data.input_type !== "approval") submit();
      }}
    >
      <Troubles wrong={wrong.length > 0 ? wrong : refused} />
      {data.input_type === "approval" ? (
        <Approval
          question={question}
          value={draft.value}
          onChange={change}
          alike={draft.alike}
          onAlike={(alike) => write(question.id, { alike })}
          onDecide={give}
          onDecideChecked={giveChecked}
        />
      ) : (
        <>
          <Input question={question} value={value} onChange={change} />
          <button type="submit" className="primary">
            Answer
          </button>
        </>
      )}
      {data.skippable && (
        <button type="button" onClick={skip} aria-keyshortcuts="s">
          Skip
        </button>
      )}
      <label htmlFor={noteId}>Note</label>
      <textarea
        id={noteId}
        rows={2}
        placeholder="Sent with your answer"
        value={draft.note ?? ""}
        onChange={(event) => write(question.id, { note: event.target.value })}
      />
    </form>
  );
}

function Troubles({ wrong }: { wrong: Wrong[] }) {
  if (wrong.length === 0) return null;
  return (
    <ul className="trouble" role="alert">
      {wrong.map(({ field, message }) => (
        <li key={field + message}>
          {field && <b>{field}: </b>}
          {message}
        </li>
      ))}
    </ul>
  );
}

interface InputProps {
  question: Question;
  value: unknown;
  onChange: (value: unknown) => void;
}

function Input(props: InputProps) {
  const { question, value, onChange } = props;
  const { input_type, answer_schema } = question.data;
  const id = useId();
  switch (input_type) {
    case "text":
      return (
        <>
          <label htmlFor={id}>Answer</label>
          <textarea
            id={id}
            rows={4}
            required={Number(answer_schema.minLength ?? 0) > 0}
            value={(value as string | undefined) ?? ""}
            onChange={(event) => onChange(event.target.value)}
          />
        </>
      );
    case "select":
    case "multiselect":
      return <Choices {...props} />;
    default:
      return <SchemaForm schema={answer_schema} value={value} onChange={onChange} isReadOnly={false} />;
  }
}
