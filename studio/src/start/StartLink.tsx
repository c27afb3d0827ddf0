/** The link to start a run, for pages that show runs. */

import { Link } from "@tanstack/react-router";
import "./start.css";

export function StartLink() {
  return (
    <Link to="/start" className="start-run">
      Start a run
    </Link>
  );
}
