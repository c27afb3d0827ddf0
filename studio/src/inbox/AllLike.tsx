/** "All like this": describes what else is approved with a question, before it is sent. */

import { Link } from "@tanstack/react-router";
import { useRun } from "../runs/run";
import { useMe } from "../shell/me";
import { seesRuns } from "../shell/rights";
import { visible } from "../shell/visible";
import { type Alike, argumentsIn, LENGTHS, lengthOf, narrowest, type Where } from "./alike";
import "./alike.css";
import type { Question } from "./question";

interface AllLikeProps {
  question: Question;
  alike: Alike | undefined;
  onChange: (alike: Alike | undefined) => void;
}

export function AllLike({ question, alike, onChange }: AllLikeProps) {
  const me = useMe();
  return (
    <fieldset className="alike">
      <legend className="unseen">All like this</legend>
      <label className="alike-switch">
        <input
          type="checkbox"
          checked={alike !== undefined}
          onChange={(event) => onChange(event.target.checked ? narrowest(question) : undefined)}
        />
        Approve all like this for a while
      </label>
      {alike !== undefined &&
        (question.run_id !== undefined && seesRuns(me) ? (
          <OfRun {...{ question, alike, onChange }} runId={question.run_id} />
        ) : (
          <Choice {...{ question, alike, onChange }} hasSession={false} />
        ))}
    </fieldset>
  );
}

interface ChoiceProps extends AllLikeProps {
  alike: Alike;
}

function OfRun({ runId, ...props }: ChoiceProps & { runId: string }) {
  const run = useRun(runId);
  return <Choice {...props} hasSession={run.data?.session_id !== undefined} />;
}

function Choice({ question, alike, onChange, hasSession }: ChoiceProps & { hasSession: boolean }) {
  const given = argumentsIn(question);
  const set = (more: Partial<Alike>) => onChange({ ...alike, ...more });
  const places: [Where, string][] = [
    ...(question.run_id === undefined ? [] : [["run", "of this run"] as [Where, string]]),
    ...(hasSession || alike.where === "session"
      ? [["session", "of this session, including later runs"] as [Where, string]]
      : []),
    ["all", "of all runs"],
  ];
  return (
    <>
      <Said question={question} alike={alike} />
      {given.length > 0 && (
        <fieldset className="alike-same">
          <legend>Arguments that must be the same</legend>
          {given.map(([name]) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={!alike.loose.includes(name)}
                onChange={(event) =>
                  set({
                    loose: event.target.checked
                      ? alike.loose.filter((each) => each !== name)
                      : [...alike.loose, name],
                  })
                }
              />
              <code>{visible(name)}</code>
            </label>
          ))}
        </fieldset>
      )}
      <div className="alike-limits">
        <label>
          Questions
          <select
            value={alike.where}
            onChange={(event) => {
              const where = event.target.value as Where;
              set({ where, ...(where !== "session" && alike.seconds === null && { seconds: 900 }) });
            }}
          >
            {places.map(([value, said]) => (
              <option key={value} value={value}>
                {said}
              </option>
            ))}
          </select>
        </label>
        <label>
          For
          <select
            value={alike.seconds ?? ""}
            onChange={({ target }) => set({ seconds: target.value === "" ? null : Number(target.value) })}
          >
            {LENGTHS.map(([seconds, said]) => (
              <option key={seconds} value={seconds}>
                {said}
              </option>
            ))}
            {alike.where === "session" && <option value="">until it is revoked</option>}
          </select>
        </label>
        <label>
          Maximum uses
          <input
            type="number"
            min={1}
            max={2 ** 31 - 1}
            step={1}
            value={alike.uses}
            placeholder="any number"
            onChange={(event) => set({ uses: event.target.value })}
          />
        </label>
      </div>
    </>
  );
}

const PLACES: Readonly<Record<Where, string>> = {
  run: "this run asks about",
  session: "runs of this session ask about, including later ones,",
  all: "any run asks about",
};

/** The questions that will be approved, and in whose name. */
function Said({ question, alike }: Pick<ChoiceProps, "question" | "alike">) {
  const me = useMe();
  const given = argumentsIn(question);
  const same = given.filter(([name]) => !alike.loose.includes(name));
  const loose = given.filter(([name]) => alike.loose.includes(name));
  return (
    <div className="alike-said" role="status">
      <p>
        {upper(lengthOf(alike))}, {alike.uses === "" ? "every" : `up to ${alike.uses} times each`}{" "}
        <code>{question.data.action?.tool}</code> that {PLACES[alike.where]} is approved in your name (
        {me.user_id}) without asking you
        {same.length > 0 ? ", if it has:" : given.length > 0 ? ", whatever its arguments are." : "."}
      </p>
      {same.length > 0 && (
        <dl>
          {same.map(([name, value]) => (
            <div key={name}>
              <dt>{visible(name)}</dt>
              <dd>{visible(short(value))}</dd>
            </div>
          ))}
        </dl>
      )}
      {same.length > 0 && loose.length > 0 && (
        <p>Whatever {loose.map(([name]) => visible(name)).join(", ")} may be.</p>
      )}
      <p className="soft">
        Open questions stay open. <Link to="/rules">Rules</Link> shows how often it was used, and ends it.
      </p>
    </div>
  );
}

const LONGEST = 200;

function short(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
}

function upper(text: string): string {
  return `${text[0]?.toUpperCase()}${text.slice(1)}`;
}
