/** The run that asks a question, and the time. */

import { Link } from "@tanstack/react-router";
import { Since } from "../time/Times";

export function Asked({ run, at }: { run: string | undefined; at: number }) {
  return (
    <>
      {run !== undefined && (
        <span>
          Run{" "}
          <Link to="/runs/$id" params={{ id: run }}>
            {run}
          </Link>
        </span>
      )}
      <span>
        asked <Since at={at} />
      </span>
    </>
  );
}
