/** The workflows that workers have announced, to start one. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Since } from "../time/Times";
import { allWorkflows, current, type Workflow } from "./workflows";
import "./start.css";

export function StartPage() {
  const found = useQuery(allWorkflows);
  const [sought, setSought] = useState("");
  useEffect(() => {
    document.title = "Start a run - Signoff";
  }, []);
  const workflows = current(found.data ?? []);
  const text = sought.trim().toLowerCase();
  const shown = workflows.filter((each) =>
    `${each.name} ${each.description ?? ""}`.toLowerCase().includes(text),
  );
  return (
    <section className="start" aria-label="Start a run">
      <header className="bar">
        <h1>Start a run</h1>
        <label className="filter">
          <span className="unseen">Find a workflow</span>
          <input
            type="search"
            placeholder="Find a workflow"
            value={sought}
            onChange={(event) => setSought(event.target.value)}
          />
        </label>
      </header>
      {found.isError && (
        <p className="trouble" role="alert">
          {found.error.message}
        </p>
      )}
      {found.isSuccess && workflows.length === 0 && (
        <div className="empty">
          <h2>No workflows yet</h2>
          <p>Workers announce their workflows when they start. Start one:</p>
          <p>
            <code>signoff worker shop:app</code>
          </p>
          <p>Its functions with @app.workflow are listed here, each with a form for its parameters.</p>
        </div>
      )}
      {workflows.length > 0 && shown.length === 0 && <p className="hint">No workflow is called so.</p>}
      <ul className="workflows" aria-label="Workflows">
        {shown.map((each) => (
          <li key={`${each.group}/${each.name}`}>
            <Row workflow={each} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Row({ workflow }: { workflow: Workflow }) {
  const { name, group, version, description, seen_at } = workflow;
  return (
    <Link
      to="/start/$workflow"
      params={{ workflow: name }}
      search={{ group } as never}
      className="workflow"
      preload={false}
    >
      <strong>{name}</strong>
      {description !== undefined && <span className="about">{description}</span>}
      <span className="facts">
        <span>group {group}</span>
        <span>version {version}</span>
        {seen_at !== undefined && (
          <span>
            announced <Since at={seen_at} />
          </span>
        )}
      </span>
    </Link>
  );
}
