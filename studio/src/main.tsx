import "./style.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRootRoute, createRoute, createRouter, RouterProvider, redirect } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Refused } from "./api/client";
import { AuditPage } from "./audit/AuditPage";
import { DeliveriesPage } from "./deliveries/DeliveriesPage";
import { InboxPage } from "./inbox/InboxPage";
import { KeysPage } from "./keys/KeysPage";
import { PromisePage } from "./promises/PromisePage";
import { PromisesPage } from "./promises/PromisesPage";
import { RulesPage } from "./rules/RulesPage";
import { RunPage } from "./runs/RunPage";
import { RunsPage } from "./runs/RunsPage";
import { SchedulesPage } from "./schedules/SchedulesPage";
import { SessionPage } from "./sessions/SessionPage";
import { SessionsPage } from "./sessions/SessionsPage";
import { StartPage } from "./start/StartPage";
import { StartWorkflowPage } from "./start/StartWorkflowPage";
import { Shell } from "./shell/Shell";
import { GroupPage } from "./workers/GroupPage";
import { WorkersPage } from "./workers/WorkersPage";

const root = createRootRoute({ component: Shell });
const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/inbox" });
  },
});
const inbox = createRoute({ getParentRoute: () => root, path: "/inbox", component: InboxPage });
const runs = createRoute({ getParentRoute: () => root, path: "/runs", component: RunsPage });
const run = createRoute({ getParentRoute: () => root, path: "/runs/$id", component: RunPage });
const start = createRoute({ getParentRoute: () => root, path: "/start", component: StartPage });
const startWorkflow = createRoute({
  getParentRoute: () => root,
  path: "/start/$workflow",
  component: StartWorkflowPage,
});
const question = createRoute({ getParentRoute: () => root, path: "/inbox/$id", component: InboxPage });
const plain = [
  createRoute({ getParentRoute: () => root, path: "/promises", component: PromisesPage }),
  createRoute({ getParentRoute: () => root, path: "/promises/$id", component: PromisePage }),
  createRoute({ getParentRoute: () => root, path: "/sessions", component: SessionsPage }),
  createRoute({ getParentRoute: () => root, path: "/sessions/$id", component: SessionPage }),
  createRoute({ getParentRoute: () => root, path: "/schedules", component: SchedulesPage }),
  createRoute({ getParentRoute: () => root, path: "/workers", component: WorkersPage }),
  createRoute({ getParentRoute: () => root, path: "/groups/$name", component: GroupPage }),
  createRoute({ getParentRoute: () => root, path: "/rules", component: RulesPage }),
  createRoute({ getParentRoute: () => root, path: "/audit", component: AuditPage }),
  createRoute({ getParentRoute: () => root, path: "/deliveries", component: DeliveriesPage }),
  createRoute({ getParentRoute: () => root, path: "/keys", component: KeysPage }),
] as const;

const router = createRouter({
  routeTree: root.addChildren([home, inbox, question, runs, run, start, startWorkflow, ...plain]),
  basepath: new URL(document.baseURI).pathname,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

const MOST_RETRIES = 3;

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: true,
      retry: (failures, error) =>
        failures < MOST_RETRIES && !(error instanceof Refused && error.problem.status < 500),
    },
  },
});

// Copies would lose exact numbers.
for (const key of ["question", "run", "promise"])
  client.setQueryDefaults([key], { structuralSharing: false });

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
