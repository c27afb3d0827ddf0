/** A run's options: id, group, session, priority, and start time. */

import { useId } from "react";

/** As typed. */
export interface Options {
  id?: string;
  group?: string;
  session_id?: string;
  priority?: string;
  delay_seconds?: string;
}

interface Field {
  name: keyof Options;
  label: string;
  help: string;
  isNumber?: boolean;
}

const FIELDS: readonly Field[] = [
  { name: "id", label: "Run id", help: "Starting twice with one id starts once" },
  { name: "group", label: "Group", help: "The group whose workers run it" },
  { name: "session_id", label: "Session", help: "It waits for earlier runs of the session" },
  {
    name: "priority",
    label: "Priority",
    help: "Ready runs with the highest priority start first",
    isNumber: true,
  },
  { name: "delay_seconds", label: "Delay in seconds", help: "It starts after this delay", isNumber: true },
];

interface StartOptionsProps {
  group: string;
  options: Options;
  onChange: (options: Options) => void;
}

export function StartOptions({ group, options, onChange }: StartOptionsProps) {
  const id = useId();
  return (
    <details open={Object.keys(options).length > 0 || undefined}>
      <summary>Options</summary>
      <div className="options-grid">
        {FIELDS.map(({ name, label, help, isNumber }) => (
          <label key={name} htmlFor={`${id}-${name}`}>
            {label}
            <input
              id={`${id}-${name}`}
              inputMode={isNumber ? "numeric" : "text"}
              placeholder={name === "group" ? group || "default" : undefined}
              value={options[name] ?? ""}
              onChange={(event) => onChange({ ...options, [name]: event.target.value })}
            />
            <small>{help}</small>
          </label>
        ))}
      </div>
    </details>
  );
}

interface Chosen {
  options: { id?: string; group?: string; session_id?: string; priority?: number; delay_seconds?: number };
}

/** Return the typed options, as the API takes them, or their errors. */
export function optionsIn(options: Options): Chosen | { wrong: { field: string; message: string }[] } {
  const wrong: { field: string; message: string }[] = [];
  const chosen: Record<string, string | number> = {};
  for (const { name, label, isNumber } of FIELDS) {
    const text = options[name]?.trim() ?? "";
    if (text === "") continue;
    const value = isNumber ? Number(text) : text;
    if (typeof value === "number" && !Number.isFinite(value))
      wrong.push({ field: label, message: `${text} is not a number` });
    else chosen[name] = value;
  }
  return wrong.length > 0 ? { wrong } : { options: chosen };
}
