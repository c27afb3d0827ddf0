/** Options of which one or several are chosen, and where it is allowed a text of one's own. */

import { useId } from "react";
import type { Question } from "./question";

interface ChoicesProps {
  question: Question;
  /** Of one choice what is chosen, of several a list. */
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
  const box = { type: isOne ? "radio" : "checkbox", name, required: isOne };
  return (
    <fieldset className="options">
      <legend className="unseen">{text}</legend>
      {options.map((option) => (
        <label key={option.value}>
          <input
            {...box}
            checked={chosen.includes(option.value)}
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

function ownText(value: unknown): string | undefined {
  return typeof value === "object" && value !== null && "other" in value ? String(value.other) : undefined;
}
