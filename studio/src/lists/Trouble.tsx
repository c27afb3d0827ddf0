/** The reason for a refusal, in the server's words. */

import { Refused } from "../api/client";

export function Trouble({ error }: { error: Error | null }) {
  if (error === null) return null;
  const fields = error instanceof Refused ? (error.problem.fields ?? []) : [];
  return (
    <div className="trouble" role="alert">
      {fields.length === 0 ? (
        <p>{error.message}</p>
      ) : (
        <ul>
          {fields.map(({ field, message }) => (
            <li key={field + message}>
              {field !== "" && <b>{field}: </b>}
              {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
