/** The changes to a proposal, while it is edited. */

import { diffWordsWithSpace } from "diff";
import { visible } from "../shell/visible";
import { type Edit, editsBetween } from "./edits";

const LONGEST_MILLISECONDS = 50;
const MOST_EDITS = 100;
const LONGEST_KEPT = 240;
const KEPT_END = 100;

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
          {edits.slice(0, MOST_EDITS).map((edit) => (
            <div key={`${edit.op} ${edit.path}`}>
              <dt>{placeOf(edit)}</dt>
              <dd>
                <Change edit={edit} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {edits.length > MOST_EDITS && <p>… and {edits.length - MOST_EDITS} more changes</p>}
    </section>
  );
}

/** Texts are compared word by word, unless that takes long; otherwise the old and the new text are shown. */
function Change({ edit: { op, old, value } }: { edit: Edit }) {
  const parts = typeof old === "string" && typeof value === "string" ? partsOf(old, value) : undefined;
  if (parts === undefined) {
    return (
      <>
        {op !== "add" && <del>{visible(shown(old))}</del>}{" "}
        {op !== "remove" && <ins>{visible(shown(value))}</ins>}
      </>
    );
  }
  return parts.map(({ kept, was, is }, at) => (
    <span key={at}>
      {shortened(visible(kept))}
      {was !== "" && <del>{visible(was)}</del>}
      {is !== "" && <ins>{visible(is)}</ins>}
    </span>
  ));
}

/** An unchanged part, followed by the old and the new text. */
interface Part {
  kept: string;
  was: string;
  is: string;
}

/** Compare two texts; undefined if they have nothing in common, or if it takes too long. */
function partsOf(old: string, value: string): Part[] | undefined {
  const words = diffWordsWithSpace(old, value, { timeout: LONGEST_MILLISECONDS });
  if (words === undefined || words.every(({ added, removed }) => added || removed)) return undefined;
  const parts: Part[] = [{ kept: "", was: "", is: "" }];
  for (const { added, removed, value: text } of words) {
    const last = parts.at(-1) as Part;
    const isChanged = last.was !== "" || last.is !== "";
    if (added) last.is += text;
    else if (removed) last.was += text;
    else if (isChanged && /^[ \t]+$/.test(text)) {
      // Consecutive changed words are one change.
      last.was += text;
      last.is += text;
    } else parts.push({ kept: text, was: "", is: "" });
  }
  return parts;
}

/** Unchanged text only shows where the changes are: its ends are enough. */
function shortened(text: string): string {
  return text.length <= LONGEST_KEPT ? text : `${text.slice(0, KEPT_END)} … ${text.slice(-KEPT_END)}`;
}

/** The place in words: `lines, 2, amount` for `/lines/1/amount`. */
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
