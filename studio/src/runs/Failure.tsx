/** A journaled error, with its causes. */

import { Json } from "../shell/Json";
import { visible } from "../shell/visible";

interface KeptError {
  type?: string;
  message?: string;
  traceback?: string;
  attributes?: Record<string, unknown>;
  cause?: unknown;
  members?: unknown[];
}

/** `ValueError` of `builtins:ValueError`. */
function nameOf(type = "Error"): string {
  return type.split(":").at(-1) ?? type;
}

export function Failure({ error }: { error: unknown }) {
  const { type, message = "", traceback, attributes, cause, members } = (error ?? {}) as KeptError;
  const hasAttributes = attributes !== undefined && attributes !== null && Object.keys(attributes).length > 0;
  return (
    <div className="failure">
      <p>
        <b title={type}>{nameOf(type)}</b> {visible(message)}
      </p>
      {traceback && (
        <details>
          <summary>Traceback</summary>
          {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls can be reached by keyboard */}
          <pre tabIndex={0}>{visible(traceback)}</pre>
        </details>
      )}
      {hasAttributes && (
        <details>
          <summary>Attributes</summary>
          <Json value={attributes} />
        </details>
      )}
      {cause !== undefined && cause !== null && (
        <>
          <p className="item-what">caused by</p>
          <Failure error={cause} />
        </>
      )}
      {(members ?? []).map((each, n) => (
        <Failure key={n} error={each} />
      ))}
    </div>
  );
}
