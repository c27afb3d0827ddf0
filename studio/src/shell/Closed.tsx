/** Pages that a server without authentication does not show, and the command that shows their data. */

import type { ReactNode } from "react";
import { Refused } from "../api/client";
import type { Me } from "./me";

/** Whether a server without keys has refused a request because its caller is unknown. */
export function isClosed(error: Error | null, me: Me): boolean {
  return !me.isKnown && error instanceof Refused && error.kind === "NotAuthenticated";
}

interface ClosedProps {
  title: string;
  /** The command that shows it on the machine with the database. */
  command: string;
}

export function Closed({ title, command }: ClosedProps): ReactNode {
  return (
    <div className="empty">
      <h2>{title}</h2>
      <p>
        This server does not authenticate callers, so it does not show this. On the machine with the database,{" "}
        <code>{command}</code> shows it.
      </p>
      <p>
        To see it here, have people sign in through your identity provider or proxy (
        <code>signoff server --oidc-issuer</code> or <code>--user-header</code>). Programs need a key:{" "}
        <code>signoff keys create NAME --role admin</code>. From the first key on, every request needs a key
        or a login, also those of this page.
      </p>
    </div>
  );
}
