/** A value edited as JSON, for lack of a more specific schema. Only valid JSON is accepted. */

import { useEffect, useId, useRef, useState } from "react";

interface JsonValueProps {
  value: unknown;
  onChange: (value: unknown) => void;
  isReadOnly: boolean;
}

export function JsonValue({ value, onChange, isReadOnly }: JsonValueProps) {
  const id = useId();
  const [text, setText] = useState(() => written(value));
  const trouble = troubleWith(text);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.setCustomValidity(trouble ?? ""), [trouble]);
  const shown = isReadOnly ? written(value) : text;
  return (
    <>
      <textarea
        ref={field}
        aria-label="JSON"
        className="json"
        rows={Math.min(20, shown.split("\n").length + 1)}
        readOnly={isReadOnly}
        spellCheck={false}
        value={shown}
        aria-invalid={trouble !== undefined}
        aria-describedby={`${id}-trouble`}
        onChange={(event) => {
          setText(event.target.value);
          if (troubleWith(event.target.value) === undefined) onChange(JSON.parse(event.target.value));
        }}
      />
      <p id={`${id}-trouble`} role="status" className="trouble" hidden={trouble === undefined}>
        Not valid JSON, so this is ignored: {trouble}
      </p>
    </>
  );
}

/** Return a value as JSON; a missing value is an empty object. */
function written(value: unknown): string {
  return JSON.stringify(value === undefined ? {} : value, null, 2);
}

function troubleWith(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
