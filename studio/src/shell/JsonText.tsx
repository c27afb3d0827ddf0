/** A field for JSON as text. It is parsed when it is sent. */

import { parseExact } from "../api/exact";

interface JsonTextProps {
  label: string;
  value: string;
  rows?: number;
  onChange: (value: string) => void;
}

export function JsonText({ label, value, rows = 4, onChange }: JsonTextProps) {
  return (
    <label>
      {label}
      <textarea
        className="code"
        rows={rows}
        value={value}
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}

/** Return a field's value, with exact numbers. Throws an error with a message for people. */
export function readJson(what: string, text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    throw new Error(`${what} is not JSON: ${(error as Error).message}`, { cause: error });
  }
}
