/** The metadata that a workflow adds to a question. */

import { rawNumber } from "../api/exact";
import { Json } from "../shell/Json";
import { visible } from "../shell/visible";

const MOST_ENTRIES = 100;

export function Metadata({ metadata }: { metadata: Record<string, unknown> }) {
  const all = Object.entries(metadata);
  if (all.length === 0) return null;
  const entries = all.slice(0, MOST_ENTRIES);
  const rest = all.slice(MOST_ENTRIES);
  return (
    <dl className="metadata">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Value value={value} />
          </dd>
        </div>
      ))}
      {rest.length > 0 && (
        <div>
          <dt>{rest.length} more</dt>
          <dd>
            <Json value={Object.fromEntries(rest)} />
          </dd>
        </div>
      )}
    </dl>
  );
}

function Value({ value }: { value: unknown }) {
  if (value === null) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  const number = rawNumber(value);
  if (number !== undefined) return number;
  if (typeof value !== "object") return <span className="help">{visible(String(value))}</span>;
  if (Array.isArray(value) && value.every((each) => typeof each === "string" || typeof each === "number")) {
    return value.length === 0 ? "none" : visible(value.join(", "));
  }
  return <Json value={value} />;
}
