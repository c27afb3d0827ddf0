/** Options to choose one or several of, and a free text where allowed. */

import { useId, useState } from "react";
import type { Question } from "./question";

/** This many are shown at once. If there are more, only those that match the typed words. */
const MOST_SHOWN = 100;

interface ChoicesProps {
  question: Question;
  /** The choice; a list if several may be chosen. */
  value: unknown;
  onChange: (value: unknown) => void;
}

export function Choices({ question, value, onChange }: ChoicesProps) {
  const name = useId();
  const { options, other, text, input_type } = question.data;
  const isOne = input_type === "select";
  const chosen = isOne ? [value].filter((each) => each != null) : Array.isArray(value) ? value : [];
  const listed = chosen.filter((each) => ownText(each) === undefined);
  const written = chosen.map(ownText).find((each) => each !== undefined);
  const choose = (next: unknown[]) => onChange(isOne ? next.at(-1) : next);
  const [words, setWords] = useState("");
  const isLong = options.length > MOST_SHOWN;
  const matching = isLong ? options.filter((option) => hasAll(option, words)) : options;
  const shown = new Set(matching.slice(0, MOST_SHOWN));
  const isChosen = new Set(chosen);
  const listedOptions = options
    .filter((option) => shown.has(option) || isChosen.has(option.value))
    .slice(0, isLong ? 2 * MOST_SHOWN : options.length);
  const box = { type: isOne ? "radio" : "checkbox", name, required: isOne };
  return (
    <fieldset className="options">
      <legend className="unseen">{text}</legend>
      {isLong && (
        <>
          <label htmlFor={`${name}-words`}>Find options</label>
          <input
            id={`${name}-words`}
            type="search"
            value={words}
            onChange={(event) => setWords(event.target.value)}
          />
          <p role="status">
            {matching.length} of {options.length} match
            {matching.length > MOST_SHOWN && `, the first ${MOST_SHOWN} are shown`}
            {chosen.length > 0 && `; ${chosen.length} chosen`}
          </p>
        </>
      )}
      {listedOptions.map((option) => (
        <label key={option.value}>
          <input
            {...box}
            checked={isChosen.has(option.value)}
            onChange={(event) =>
              choose(
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
        <label>
          <input
            {...box}
            checked={written !== undefined}
            onChange={(event) => choose(event.target.checked ? [...listed, { other: "" }] : listed)}
          />
          <span>
            {other}
            <input
              type="text"
              aria-label={other}
              value={written ?? ""}
              onChange={(event) => choose([...listed, { other: event.target.value }])}
            />
          </span>
        </label>
      )}
    </fieldset>
  );
}

function hasAll({ label, value, help }: Question["data"]["options"][number], words: string): boolean {
  const text = `${label ?? value} ${help ?? ""}`.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function ownText(value: unknown): string | undefined {
  return typeof value === "object" && value !== null && "other" in value ? String(value.other) : undefined;
}
