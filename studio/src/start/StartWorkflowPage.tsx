/** One workflow, as a form that starts a run of it. */

import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect } from "react";
import { Since } from "../time/Times";
import { current, versionsOf } from "./workflows";
import "./start.css";

const StartForm = lazy(() => import("./StartForm")); // half of all the code

export function StartWorkflowPage() {
  const { workflow: name } = useParams({ strict: false }) as { workflow: string };
  const { group } = useSearch({ strict: false }) as { group?: string };
  const found = useQuery(versionsOf(name));
  useEffect(() => {
    document.title = `Start ${name} - Signoff`;
  }, [name]);
  if (found.isError)
    return (
      <p className="trouble" role="alert">
        {found.error.message}
      </p>
    );
  if (found.data === undefined) return null;
  const groups = current(found.data);
  const chosen = groups.find((each) => each.group === group) ?? groups[0];
  return (
    <div className="start">
      <article className="start-form" aria-labelledby="workflow-name">
        <p>
          <Link to="/start">All workflows</Link>
        </p>
        <h1 id="workflow-name">Start {name}</h1>
        {chosen === undefined ? (
          <p className="settled">
            No worker has announced {name}. A run of it can still be started: it waits until a worker that has
            it begins.
          </p>
        ) : (
          <>
            {chosen.description !== undefined && <p className="help">{chosen.description}</p>}
            <p className="facts">
              <span>version {chosen.version}</span>
              {chosen.seen_at !== undefined && (
                <span>
                  announced <Since at={chosen.seen_at} />
                </span>
              )}
            </p>
          </>
        )}
        <Suspense fallback={null}>
          <StartForm
            key={`${chosen?.group}/${name}`}
            name={name}
            group={chosen?.group ?? group ?? ""}
            parameters={chosen?.parameters as object | undefined}
          />
        </Suspense>
      </article>
    </div>
  );
}
