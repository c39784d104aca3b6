import React, { useEffect, useState } from 'react';
import ForgeReconciler, { Button, Heading, List, ListItem, Stack } from '@forge/react';
import { invoke } from '@forge/bridge';
import { createTracker } from './eds-ui.js';

const track = createTracker(invoke);

const Reports = () => {
  const [reports, setReports] = useState([]);
  useEffect(() => track('Reports_Viewed'), []);
  const create = async () => {
    const report = await invoke('createReport', { title: `Report ${reports.length + 1}` });
    setReports([...reports, report]);
  };
  return (
    <Stack space="space.200">
      <Heading as="h1">Reports</Heading>
      <Button appearance="primary" onClick={create}>Create a report</Button>
      <List type="unordered">
        {reports.map(({ id, title }) => <ListItem key={id}>{title}</ListItem>)}
      </List>
      <Button onClick={() => track('Report_Shared')}>Share</Button>
    </Stack>
  );
};

ForgeReconciler.render(<React.StrictMode><Reports /></React.StrictMode>);
