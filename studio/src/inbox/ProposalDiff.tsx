/** What is changed about a proposal, as it is typed. */

import { visible } from "../shell/visible";
import { type Edit, editsBetween } from "./edits";

interface DiffProps {
  proposal: unknown;
  edited: unknown;
}

export function ProposalDiff({ proposal, edited }: DiffProps) {
  const edits = editsBetween(proposal, edited);
  return (
    <section className="diff" aria-label="Changes" aria-live="polite">
      <h3>{edits.length === 0 ? "Nothing changed yet" : "Changes"}</h3>
      {edits.length > 0 && (
        <dl>
          {edits.map((edit) => (
            <div key={`${edit.op} ${edit.path}`}>
              <dt>{placeOf(edit)}</dt>
              <dd>
                {edit.op !== "add" && <del>{visible(shown(edit.old))}</del>}{" "}
                {edit.op !== "remove" && <ins>{visible(shown(edit.value))}</ins>}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}

/** Where it is, as people say it: `lines, 2, amount` for `/lines/1/amount`. */
function placeOf({ path }: Edit): string {
  const parts = path.split("/").slice(1);
  return parts
    .map((part) => (/^\d+$/.test(part) ? String(Number(part) + 1) : part))
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(", ");
}

function shown(value: unknown): string {
  return typeof value === "string" && value !== "" ? value : (JSON.stringify(value) ?? "nothing");
}
