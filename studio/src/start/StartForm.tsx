/** The form that starts a run: arguments by fields or as JSON, and options. */

import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useId, useRef, useState } from "react";
import { api, given, Refused } from "../api/client";
import { freshId } from "../api/freshId";
import type { Schema } from "../form/shownSchema";
import { useDraft, write } from "../inbox/drafts";
import SchemaForm from "../inbox/SchemaForm";
import { errorsOf } from "../inbox/checked";
import type { Wrong } from "../inbox/checks";
import { useMe } from "../shell/me";
import { type Call, callOf, checkedBy, readCall, valuesIn, valuesOf } from "./arguments";
import { type Options, optionsIn, StartOptions } from "./StartOptions";

/** Unsent input. */
interface Typed {
  said?: unknown;
  /** The arguments as JSON, while they are edited that way. */
  text?: string | undefined;
  options?: Options;
  /** The last sent input, and the key that identifies it to the server. */
  sent?: { body: string; key: string };
}

interface StartFormProps {
  name: string;
  group: string;
  parameters: object | undefined;
}

const NO_ARGUMENTS = JSON.stringify({ args: [], kwargs: {} }, null, 2);

export default function StartForm({ name, group, parameters }: StartFormProps) {
  const draftId = `start/${group}/${name}`;
  const typed = (useDraft(draftId).value ?? {}) as Typed;
  const type = (more: Typed) => write(draftId, { value: { ...typed, ...more } });
  const me = useMe();
  const navigate = useNavigate();
  const [wrong, setWrong] = useState<Wrong[]>([]);
  const troubles = useRef<HTMLUListElement>(null);
  const text = parameters === undefined ? (typed.text ?? NO_ARGUMENTS) : typed.text;
  const options = typed.options ?? {};

  const start = useMutation({
    mutationFn: ({ body, key }: { body: StartBody; key: string }) =>
      given(api.POST("/v1/runs", { params: { header: { "Idempotency-Key": key } }, body })),
    onSuccess: (run) => {
      write(draftId, { value: undefined });
      void navigate({ to: "/runs/$id", params: { id: run.id } });
    },
  });
  const refusal = start.error;
  const refused: Wrong[] =
    refusal instanceof Refused && refusal.problem.fields !== undefined
      ? refusal.problem.fields
      : refusal === null
        ? []
        : [{ field: "", message: said(refusal) }];
  const shown = wrong.length > 0 ? wrong : refused;
  useEffect(() => {
    if (shown.length > 0) troubles.current?.focus();
  }, [shown.length, refusal, wrong]);

  const isChecking = useRef(false);
  const send = async () => {
    if (isChecking.current) return;
    isChecking.current = true;
    start.reset();
    const call = text === undefined ? await called(parameters as Schema, typed.said) : readOrWrong(text);
    isChecking.current = false;
    const chosen = optionsIn(options);
    const found = [...("wrong" in call ? call.wrong : []), ...("wrong" in chosen ? chosen.wrong : [])];
    setWrong(found);
    if ("wrong" in call || "wrong" in chosen) return;
    const body: StartBody = {
      workflow: name,
      ...call,
      ...(group !== "" && { group }),
      priority: 0,
      ...chosen.options,
      started_by: `user:${me.user_id}`,
    };
    const written = JSON.stringify(body);
    const key = typed.sent?.body === written ? typed.sent.key : freshId();
    type({ sent: { body: written, key } });
    start.mutate({ body, key });
  };

  const asJson = () => {
    const schema = parameters as Schema;
    const call = callOf(schema, valuesOf(schema, typed.said));
    type({ text: JSON.stringify("missing" in call ? { args: [], kwargs: typed.said } : call, null, 2) });
    setWrong([]);
  };
  const asForm = () => {
    const call = readOrWrong(text ?? "");
    if ("wrong" in call) setWrong(call.wrong);
    else {
      type({ text: undefined, said: valuesIn(parameters as Schema, call) });
      setWrong([]);
    }
  };

  return (
    <form
      className="answer"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {parameters !== undefined && (
        <fieldset className="segments">
          <legend className="unseen">Write the arguments as</legend>
          <button
            type="button"
            aria-pressed={text === undefined}
            onClick={() => text !== undefined && asForm()}
          >
            Form
          </button>
          <button
            type="button"
            aria-pressed={text !== undefined}
            onClick={() => text === undefined && asJson()}
          >
            As JSON
          </button>
        </fieldset>
      )}
      {text !== undefined && <JsonArguments text={text} onChange={(next) => type({ text: next })} />}
      {text === undefined &&
        parameters !== undefined &&
        (hasParameters(parameters as Schema) ? (
          <SchemaForm
            schema={parameters}
            value={typed.said}
            onChange={(said) => type({ said })}
            isReadOnly={false}
          />
        ) : (
          <p className="help">It takes no arguments.</p>
        ))}
      <StartOptions group={group} options={options} onChange={(next) => type({ options: next })} />
      {shown.length > 0 && (
        <ul className="trouble" role="alert" tabIndex={-1} ref={troubles}>
          {shown.map(({ field, message }) => (
            <li key={field + message}>
              {field && <b>{field}: </b>}
              {message}
            </li>
          ))}
        </ul>
      )}
      <button type="submit" className="primary" disabled={start.isPending}>
        Start
      </button>
    </form>
  );
}

interface StartBody extends Call {
  workflow: string;
  group?: string;
  id?: string;
  session_id?: string;
  priority: number;
  delay_seconds?: number;
  started_by: string;
}

function JsonArguments({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const id = useId();
  return (
    <>
      <label htmlFor={id}>Arguments</label>
      <textarea
        id={id}
        className="code"
        rows={12}
        spellCheck={false}
        aria-describedby={`${id}-help`}
        value={text}
        onChange={(event) => onChange(event.target.value)}
      />
      <small id={`${id}-help`} className="help">
        args are passed by position, kwargs by name. The worker that takes the run checks them.
      </small>
    </>
  );
}

/** If a server cannot be reached, a browser only reports that fetching failed. */
function said(refusal: Error): string {
  return refusal instanceof TypeError ? "The server cannot be reached. Your input is kept." : refusal.message;
}

/** The call that a form's fields make, or their errors. */
async function called(parameters: Schema, said: unknown): Promise<Call | { wrong: Wrong[] }> {
  const values = valuesOf(parameters, said);
  const defaults = Object.entries(parameters.properties ?? {}).filter(([, each]) => "default" in each);
  const whole = { ...Object.fromEntries(defaults.map(([name, each]) => [name, each.default])), ...values };
  const wrong = await errorsOf(checkedBy(parameters), whole);
  if (wrong.length > 0) return { wrong };
  const call = callOf(parameters, values);
  if ("missing" in call)
    return {
      wrong: [
        { field: call.missing, message: "It is required, since later arguments are passed by position" },
      ],
    };
  return call;
}

function readOrWrong(text: string): Call | { wrong: Wrong[] } {
  try {
    return readCall(text);
  } catch (error) {
    return { wrong: [{ field: "Arguments", message: (error as Error).message }] };
  }
}

function hasParameters({ properties = {}, additionalProperties }: Schema): boolean {
  return Object.keys(properties).length > 0 || additionalProperties !== false;
}
