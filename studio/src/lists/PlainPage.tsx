/** A page with a title, actions and lists. */

import { type ReactNode, useEffect } from "react";
import "./lists.css";

interface PlainPageProps {
  title: string;
  /** Filters and actions beside the title. */
  controls?: ReactNode;
  children: ReactNode;
}

export function PlainPage({ title, controls, children }: PlainPageProps) {
  useEffect(() => {
    document.title = `${title} - Signoff`;
  }, [title]);
  return (
    <section className="plain" aria-labelledby="plain-title">
      <header className="bar">
        <h1 id="plain-title">{title}</h1>
        {controls}
      </header>
      <div className="plain-body">{children}</div>
    </section>
  );
}
